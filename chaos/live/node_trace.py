"""The states of a node, one by one: `cluster/<node>/trace.jsonl`, written by the node itself.

    {"at": 812.25, "boot": 4711, "life": 90210, "generation": [7, 55], "role": "follower",
     "term": 2, "vote": "n0", "leader": "n0", "committed": 811, "last": 812,
     "members": ["n0", "n1", "n2"], "configuration": 41, "changing": [], "no_op": 812,
     "links": [811, "9f31c2aa07bb61d0"]}

A line for each change of role, term, vote, leader or group, and for a commit index that rose, at
most every COMMIT_SECONDS. So a leader of a few milliseconds is seen, which the observer's looks
(observer.py) would miss. `at` is of the machine's monotonic clock, which all processes share, and
not of the node's own, which faults skew. `boot` (the process), `life` (the folder's incarnation)
and `generation` (which copy of the folder it is: generation.py) stand in the first line of
each process, `members` where they changed. `configuration` is the newest one in its log, `changing`
those that it has not committed; a leader tells its `no_op`, the entry that its term began with, and
where it was elected, `links`, the checksums behind its last entries (log_links.py).

Term and vote are those on the disk: what is not there yet was told to nobody, and a crash may
rightly take it back. Lines are written one by one without a buffer, so that a kill loses none; a
torn line is passed over. Nothing of this is in the product: `node_main.py` hooks it in.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from chaos.checkers.elections import Seen
from chaos.live.evidence_rows import generation, links, trace
from chaos.live.log_links import links_behind
from chaos.strict import NUMBER, check, parse
from dledger.core.configuration import Member, Standing
from dledger.core.node import RaftNode
from dledger.core.types import Index, Role
from dledger.log.port import HardStateStore, LogStore
from dledger.membership.generation import NO_GENERATION, Generation
from dledger.runtime.driver import Driver

TRACE = "trace.jsonl"
ZERO = "zero.json"  # beside `cluster`: the monotonic clock when the run's seconds began
COMMIT_SECONDS = 0.05
#: Beyond this many bytes commit indexes alone are not written any more; beyond twice it, nothing.
SIZE_MAX = 16 << 20


class NodeTrace:
    """Writes the trace of one replica; `look` after every event of it."""

    def __init__(
        self,
        path: Path,
        node: RaftNode,
        hard: HardStateStore,
        now: Callable[[], float] = time.monotonic,
        generation: Generation = NO_GENERATION,
        log: LogStore | None = None,
    ) -> None:
        self._path, self._node, self._hard, self._now = path, node, hard, now
        self._log = log
        self._generation = {} if generation == NO_GENERATION else {"generation": [*generation]}
        self._fd, self._size = -1, 0
        self._before: tuple[Any, ...] = ()
        self._members: list[str] = []
        self._commit, self._due = -1, 0.0

    def look(self) -> None:
        """Write a line if anything has changed that is worth one.

        When it cannot be written (no descriptor, no space, a limit of the file's size), the next
        look tries again.
        """
        node, saved = self._node, self._hard.state
        if node.term != saved.term and node.role is not Role.LEADER:
            return
        standing = (node.role, node.term, saved.voted_for, node.leader, node.configuration_index)
        changed = standing != self._before
        if not changed and node.commit == self._commit:
            return
        now = self._now()
        if (not changed and now < self._due) or self._size > SIZE_MAX * (2 if changed else 1):
            return
        with contextlib.suppress(OSError):
            members = [_named(member) for member in node.configuration.members]
            self._write(self._line(now, members))
            self._before, self._members = standing, members
            self._commit, self._due = node.commit, now + COMMIT_SECONDS

    def close(self) -> None:
        """Another replica goes on with the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _line(self, now: float, members: list[str]) -> dict[str, Any]:
        node, saved = self._node, self._hard.state
        first = {"boot": os.getpid(), "life": saved.incarnation, **self._generation}
        line = {
            "at": round(now, 6),
            **({} if self._before else first),
            "role": node.role.value,
            "term": node.term,
            "vote": (saved.voted_for or "") if saved.term == node.term else "",
            "leader": node.leader or "",
            "committed": node.commit,
            "last": node.log.last.index,
        }
        if members != self._members:
            line["members"] = members
        line["configuration"] = node.configuration_index
        changing = node.configurations_in(Index(node.commit + 1), node.log.last.index)
        line["changing"] = [one.index for one in changing]
        if node.role is Role.LEADER:
            line["no_op"] = node.status().noop_index
            if self._log is not None and self._before[:2] != (node.role, node.term):
                line |= links_behind(self._log, node.commit)
        return line

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._fd < 0:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            self._size = os.fstat(self._fd).st_size
        whole = self._size == 0 or os.pread(self._fd, 1, self._size - 1) == b"\n"
        text = ("" if whole else "\n") + json.dumps(line, separators=(",", ":")) + "\n"
        self._size += os.write(self._fd, text.encode())


def _named(member: Member) -> str:
    """Returns a voter's name; for another member the name and its standing."""
    voter = member.standing is Standing.VOTER
    return member.node_id if voter else f"{member.node_id} {member.standing.value}"


def follow(driver: Driver, path: Path) -> NodeTrace:
    """Look after each event of a driver, before it has begun."""
    trace = NodeTrace(
        path,
        driver.replica.node,
        driver.parts.hard,
        generation=driver.generation,
        log=driver.replica.log,
    )
    after = driver._after

    def after_and_look() -> None:
        after()
        trace.look()

    setattr(driver, "_after", after_and_look)  # noqa: B010  # mypy allows no method to be replaced
    return trace


def begin_time(root: Path, zero: float) -> None:
    """Writes the monotonic time at which the run's seconds began, for the readers of its folder."""
    (root / ZERO).write_text(json.dumps({"monotonic": zero}) + "\n", encoding="utf-8")


def read_traces(root: Path) -> list[dict[str, Any]]:
    """All lines of a run's nodes in order of time, in the words of nodes.jsonl and in its seconds.

    `boot` counts the processes of a node; `members` is in lines where they changed. [] of a run
    that has no traces. Raises OSError, ValueError.
    """
    if not (root / ZERO).exists():
        return []
    try:
        zero = check(parse((root / ZERO).read_text("utf-8")), {"monotonic": NUMBER})["monotonic"]
    except ValueError as error:
        raise ValueError(f"{ZERO} cannot be read: {error}") from error
    rows = [
        row for path in sorted((root / "cluster").glob(f"*/{TRACE}")) for row in _rows(path, zero)
    ]
    return sorted(rows, key=lambda row: float(row["time"]))


def _rows(path: Path, zero: float) -> Iterator[dict[str, Any]]:
    boot, life = -1, None
    for number, text in enumerate(path.read_text("utf-8", errors="replace").split("\n"), 1):
        try:
            found = parse(text)
        except ValueError:
            continue  # torn when its process died
        try:
            line = trace(found)
        except ValueError as error:
            name = f"cluster/{path.parent.name}/{TRACE}"
            raise ValueError(f"{name}, line {number} cannot be read: {error}") from error
        if "boot" in line:
            boot, life = boot + 1, line["life"]
        at = round(line.pop("at") - zero, 6)
        yield {"time": at, "node": path.parent.name, **line, "boot": boot, "life": life}


def told(row: Mapping[str, Any]) -> Seen:
    """Turns one row into a `Seen` for the checkers, which recognise a new folder of a node by its
    incarnation (`life`), as in the observer's rows."""
    return Seen(
        row["time"],
        row["node"],
        row["term"],
        row["role"] == "leader",
        row["vote"],
        row["committed"],
        row["last"],
        row["boot"],
        no_op=row.get("no_op"),
        configuration=row.get("configuration"),
        life=row["life"],
        generation=generation(row),
        links=links(row),
        changing=tuple(row["changing"]) if "changing" in row else None,
    )
