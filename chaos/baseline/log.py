"""An append-only log on pysyncobj, with a transport that can be cut and can deliver an old append
again.

    append(value) ─► majority of journals (never synced) ─► values on every node ─► offset

The transport is pysyncobj's own; between it and the protocol sit two faults: messages to and from
chosen nodes vanish (a partition), and one append of the leader's, kept when it came, is delivered
once more (docs/spec/chaos.md 3.2, kinds 18 and 29: what an old connection delivers late).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cluster.nameserver.syncobj import (
    FAIL_REASON,
    SyncObj,
    SyncObjConf,
    TCPTransport,
    replicated,
)

TICK_SECONDS = 0.01
KEPT_MAX = 2000  # appends of the leader's that can be repeated; a course lasts some seconds
NEVER = 10**9

#: Answers after which the command is in no log and cannot come into one.
CERTAINLY_NOT = frozenset(
    {
        FAIL_REASON.QUEUE_FULL,
        FAIL_REASON.MISSING_LEADER,
        FAIL_REASON.REQUEST_DENIED,
        FAIL_REASON.NOT_LEADER,
    }
)


class FaultyTransport(TCPTransport):  # type: ignore[misc]  # pysyncobj has no types
    """pysyncobj's transport; `cut` names addresses that do not hear this node, nor it them."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.cut: frozenset[str] = frozenset()
        self.appends: deque[tuple[Any, dict[str, Any]]] = deque(maxlen=KEPT_MAX)
        self.committed = 0
        self.lost = 0
        self._receive: Callable[[Any, dict[str, Any]], None] = lambda _node, _message: None
        super().__init__(*arguments, **named)

    def setOnMessageReceivedCallback(  # pysyncobj's name
        self, callback: Callable[[Any, dict[str, Any]], None]
    ) -> None:
        """As pysyncobj's; the faults stand in front of `callback`."""
        self._receive = callback
        super().setOnMessageReceivedCallback(self._received)

    def _received(self, node: Any, message: dict[str, Any]) -> None:
        if node.id in self.cut:
            self.lost += 1
            return
        if message["type"] == "append_entries":
            self.committed = max(self.committed, message["commit_index"])
            if message.get("entries"):
                self.appends.append((node, message))
        self._receive(node, message)

    def send(self, node: Any, message: dict[str, Any]) -> bool:
        """As pysyncobj's; False, and counted as lost, for a node that is cut off."""
        if node.id in self.cut:
            self.lost += 1
            return False
        return bool(super().send(node, message))

    def deliver_again(self, back: int) -> int:
        """Delivers once more the append that came `back` before the newest one with committed
        entries only.

        How many committed entries follow it in the log: all of them may have been acknowledged. 0
        when nothing was delivered. Runs on the protocol's own thread.
        """
        # What a follower knows to be committed, the leader has acknowledged frames ago.
        settled = [one for one in self.appends if last_index(one[1]) <= self.committed]
        if len(settled) <= back:
            return 0
        node, message = settled[-1 - back]
        self._receive(node, message)
        return self.committed - last_index(message)


def last_index(append: dict[str, Any]) -> int:
    """The index of an append's last entry; its entries are (command, index, term)."""
    return int(append["entries"][-1][1])


class AppendLog(SyncObj):  # type: ignore[misc]  # pysyncobj has no types
    """Values in the order in which they were agreed."""

    def __init__(self, address: str, peers: Sequence[str], journal: Path, password: str) -> None:
        self.values: list[str] = []
        self._wanted: list[Callable[[], None]] = []
        conf = SyncObjConf(
            password=password,  # it unpickles what comes to its port
            bindAddress=address,  # its default is every interface
            journalFile=str(journal),
            autoTickPeriod=TICK_SECONDS,
            connectionRetryTime=0.5,
            logCompactionMinEntries=NEVER,
            logCompactionMinTime=NEVER,
        )
        super().__init__(address, list(peers), conf, transportClass=FaultyTransport)
        self.addOnTickCallback(self._do_wanted)

    @replicated  # type: ignore[untyped-decorator]
    def append(self, value: str) -> int:
        """Add a value at the end on every node; the result is its offset."""
        self.values.append(value)
        return len(self.values) - 1

    @property
    def transport(self) -> FaultyTransport:
        """The transport with the faults, which pysyncobj made."""
        return self._SyncObj__transport  # type: ignore[no-any-return]  # it has no other way

    def on_tick(self, what: Callable[[], int]) -> int:
        """Do something between two ticks, on the protocol's thread, and wait for it."""
        done, found = threading.Event(), [0]

        def carry_out() -> None:
            found[0] = what()
            done.set()

        self._wanted.append(carry_out)
        done.wait(5.0)
        return found[0]

    def _do_wanted(self) -> None:
        while self._wanted:
            self._wanted.pop(0)()
