"""Alerts: the faults of a cluster now, from the reports of its replicas.

An alert has a level (critical: something is not served, or one more failure stops it; warning: it
will be), an id, a subject (a node or a group), a sentence, and one thing to try. The console shows
them and `dledger doctor` prints them.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from cluster.security.certificate_ends import URGENT_SECONDS, WARNED_SECONDS
from commitlog.address import host_of
from dledger.config import is_loopback
from dledger.core.margin import LACKS_SETTLED

CRITICAL, WARNING = "critical", "warning"
CLOCK_SECONDS_MAX = 5.0
"""A clock that is further off from those of most nodes is an alert."""
LAG_ENTRIES_MAX = 10_000
"""A replica that is further behind its leader is an alert, as in /readyz."""
DISK_USED_MAX = 0.85
"""From here on a disk is an alert; brokers refuse messages above their own water mark."""
HEARD_SECONDS = 5.0
"""A node that answered its leader within this time runs."""
HEALTHY_DISKS = ("good", "")

Row = Mapping[str, Any]
"""A replica, as `Admin.replicas` gives it."""


def leader_of(group: str, replicas: Iterable[Row]) -> Row | None:
    """The leader of a group; of two that say so, the one of the higher term."""
    leaders = [row for row in replicas if row["group"] == group and row["role"] == "leader"]
    return max(leaders, key=lambda row: int(row["term"]), default=None)


def behind_leader(row: Row, leader: Row | None) -> int | None:
    """How many entries a replica is behind its leader; None where that is not known."""
    if leader is None or "last_index" not in row:
        return None
    return max(int(leader["last_index"]) - int(row["last_index"]), 0)


def alerts(replicas: Sequence[Row], members: Mapping[str, Row]) -> Iterator[dict[str, str]]:
    """All alerts, the worst first within each group.

    `members`: group name → what `Admin.members` told, empty for a group without a leader.
    """
    for group in dict.fromkeys(str(row["group"]) for row in replicas):
        leader = leader_of(group, replicas)
        if leader is None:
            yield alert(
                CRITICAL,
                "no-leader",
                group,
                f"no node leads {group}, so nothing can be sent",
                "start the nodes that do not answer (dledger up, or systemctl start dledger)",
            )
        elif (members[group].get("may_fail_now") or 0) < 1 and len(_of(group, replicas)) > 1:
            yield alert(
                CRITICAL,
                "no-margin",
                group,
                f"{group} has no leader as soon as one more node fails",
                "bring the missing nodes back (dledger member list says which)",
            )
        yield from _of_lost_entries(members.get(group, {}))
        yield from _of_the_way_between(group, members.get(group, {}))
        heard = heard_by_leader(members.get(group, {}))
        usual = usual_clock(replicas)
        for row in _of(group, replicas):
            yield from _of_replica(row, leader, is_heard=str(row["node"]) in heard)
            yield from _of_clock(row, usual)


def _of_lost_entries(members: Row) -> Iterator[dict[str, str]]:
    """Each node that acknowledged entries and lacks them now, because its disk lost them."""
    for node, why in sorted((members.get("uncounted") or {}).items()):
        if why == LACKS_SETTLED:
            yield alert(
                CRITICAL,
                "lost-entries",
                node,
                f"{node} {why}",
                f"look whether its disk is failing (dmesg), then dledger node replace {node}",
            )


def _of_the_way_between(group: str, members: Row) -> Iterator[dict[str, str]]:
    """A group of nodes beyond one machine without TLS, by the settings of its leader."""
    told = members.get("shared")
    if told is None or "raft.tls_mode" in told["settings"]:
        return
    addresses = [str(row.get("address") or "") for row in members.get("members", ())]
    hosts = [host_of(address) for address in addresses if address]
    if len(hosts) > 1 and not all(map(is_loopback, hosts)):
        yield alert(
            WARNING,
            "plain-peers",
            group,
            f"the nodes of {group} send each other the log without TLS, so the network between "
            "them can read it",
            "give them certificates (dledger tls init), then raft.tls_mode=permissive on each, "
            "then enforcing on each",
        )


def _of(group: str, replicas: Iterable[Row]) -> list[Row]:
    return [row for row in replicas if row["group"] == group]


def heard_by_leader(members: Row) -> set[str]:
    """The nodes that have answered their leader just now."""
    return {
        str(row["node"])
        for row in members.get("members", ())
        if row.get("silent_seconds") is not None and row["silent_seconds"] < HEARD_SECONDS
    }


def _of_replica(row: Row, leader: Row | None, *, is_heard: bool) -> Iterator[dict[str, str]]:
    node = str(row["node"])
    if not row["up"] and is_heard:
        yield alert(
            CRITICAL,
            "client-port",
            node,
            f"{node} takes part in its group, and no client reaches it at {row['address']}",
            "end the program that has its port (ss -ltnp says which), or open the way there; "
            "it opens the port by itself",
        )
        return
    if not row["up"]:
        yield alert(
            CRITICAL,
            "node-down",
            node,
            f"{node} does not answer at {row['address']}",
            f"start it; dledger logs {node} says how it ended, or which of its ports is taken",
        )
        return
    if row.get("failed"):
        yield alert(
            CRITICAL,
            "node-failed",
            node,
            f"{node} has stopped working: {row['failed']}",
            f"read dledger logs {node}, then start it again",
        )
    if str(row.get("disk", "")) not in HEALTHY_DISKS:
        yield alert(
            CRITICAL,
            "disk",
            node,
            f"the disk of {node} is {row['disk']}: {row.get('disk_detail') or 'no detail'}",
            "free space there, or look whether the disk is failing (dmesg)",
        )
    elif float(row.get("disk_used_ratio") or 0) >= DISK_USED_MAX:
        yield alert(
            WARNING,
            "disk-filling",
            node,
            f"the disk of {node} is {float(row['disk_used_ratio']):.0%} full",
            "free space, add disk, or keep messages for less time (broker.reserved_hours)",
        )
    yield from _of_certificates(row)
    behind = behind_leader(row, leader)
    if behind is not None and behind > LAG_ENTRIES_MAX:
        yield alert(
            WARNING,
            "replica-lag",
            node,
            f"{node} is {behind} entries behind its leader",
            "look at its disk and its link; it catches up by itself when both are well",
        )


def _of_certificates(row: Row) -> Iterator[dict[str, str]]:
    """The first of its certificates that ends, by the clock of this machine."""
    left = float(row.get("certificate_ends_at", math.inf)) - time.time()
    if left < WARNED_SECONDS:
        node, file = str(row["node"]), row.get("certificate_ends_first", "")
        when = f"ends in {left / 86_400:.1f} days" if left > 0 else "has ended"
        yield alert(
            CRITICAL if left < URGENT_SECONDS else WARNING,
            "certificate-ends",
            node,
            f"a certificate of {node} {when}: {file}; from then on nobody connects with it anew",
            "dledger tls renew FOLDER, then copy its files to the node; it reads them by itself",
        )


def usual_clock(replicas: Iterable[Row]) -> float:
    """How far most clocks are ahead of the one that asks, in seconds: the median."""
    ahead = [row["clock_ahead_seconds"] for row in replicas if "clock_ahead_seconds" in row]
    return statistics.median(ahead) if ahead else 0.0


def _of_clock(row: Row, usual: float) -> Iterator[dict[str, str]]:
    """A clock that is off from those of most nodes, by more than the answer leaves in doubt."""
    if "clock_ahead_seconds" not in row:
        return
    ahead = float(row["clock_ahead_seconds"]) - usual
    if abs(ahead) - float(row["clock_doubt_seconds"]) > CLOCK_SECONDS_MAX:
        node = str(row["node"])
        yield alert(
            WARNING,
            "clock",
            node,
            f"the clock of {node} is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} "
            "those of the other nodes, so messages are stored under, and delivered at, wrong times "
            "while it leads",
            "set it by the network's time there (chronyc tracking, timedatectl)",
        )


def clock_of_this_machine(replicas: Sequence[Row]) -> Iterator[dict[str, str]]:
    """The clock of the machine that asks, where it is off from those of most nodes."""
    ahead = -usual_clock(replicas)
    doubt = max((float(row.get("clock_doubt_seconds", 0)) for row in replicas), default=0.0)
    if abs(ahead) - doubt > CLOCK_SECONDS_MAX:
        yield alert(
            WARNING,
            "clock",
            "this machine",
            f"its clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} those of the "
            "nodes, so times that are given to commands mean other moments there",
            "set it by the network's time (chronyc tracking, timedatectl)",
        )


def alert_text(one: Mapping[str, str]) -> str:
    """An alert in two lines, for people."""
    return f"{one['level']}: {one['subject']}: {one['message']}\n    try: {one['try']}"


def alert(level: str, kind: str, subject: str, text: str, attempt: str) -> dict[str, str]:
    """One alert, with the names that the API and `-o json` show."""
    return {"level": level, "id": kind, "subject": subject, "message": text, "try": attempt}
