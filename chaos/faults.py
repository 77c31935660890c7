"""The table of faults of the simulator and of live runs (docs/spec/chaos.md 3.2). Pure values.

    kind      the fault; it has the same name in the simulator and on real processes
    target    the node that it hits, by role; chosen when it begins, as roles are known only then
    takes     the nodes that are out of service while it lasts; a schedule keeps their number below
              a majority (schedule.py)
    driver    the part of `chaos/drivers` that injects it, and so what the machine must offer

`takes` decides which faults may overlap. NOTHING slows or disturbs nodes; NODE counts as one
missing node; MINORITY counts as the largest number of nodes that may be missing; EVERYTHING stops
the service for a moment, and no other fault overlaps with it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass


class Takes(enum.Enum):
    """The part of the cluster that is out of service while a fault lasts."""

    NOTHING = "nothing"
    NODE = "node"
    MINORITY = "minority"
    EVERYTHING = "everything"


class Target(enum.Enum):
    """The node, or nodes, that a fault hits, by their role."""

    RANDOM = "random"
    LEADER = "leader"
    FOLLOWER = "follower"
    MOST_CURRENT = "most-current"  # the follower whose log ends last
    LEAST_CURRENT = "least-current"
    CATCHING_UP = "catching-up"  # the leader sends it missed entries, or it came back last
    LAST_VOTER = "last-voter"  # its vote completed the leader's majority
    NEW_LEADER = "new-leader"  # elected a moment ago
    MINORITY = "minority"  # the most nodes that may be missing: one of three
    ALL = "all"


class Driver(enum.Enum):
    """Part of `chaos/drivers`."""

    PROCESS = "process"
    CGROUP = "cgroup"
    LINK = "link"
    FILES = "files"
    LOOP = "loop"
    SHIM = "shim"
    NODE = "node"  # hooks of chaos.live.node_main: clock, failpoints, transfer
    CLIENT = "client"
    MEMBERS = "members"
    VERSIONS = "versions"


class Network(enum.StrEnum):
    """The way in which the nodes of a live run reach each other, and links are cut."""

    PROXIES = "proxies"  # link proxies of this package on loopback
    NAMESPACES = "namespaces"  # each node in its network namespace, nftables; needs root
    TOXIPROXY = "toxiproxy"  # the official toxiproxy server; TOXIPROXY_OWN if Go is absent
    TOXIPROXY_OWN = "toxiproxy-own"  # this package's server with the same HTTP interface


ONE = (Target.RANDOM, Target.LEADER, Target.FOLLOWER)
CHOSEN = (
    *ONE,
    *(Target.MOST_CURRENT, Target.LEAST_CURRENT),
    *(Target.CATCHING_UP, Target.LAST_VOTER, Target.NEW_LEADER),
)


@dataclass(frozen=True, slots=True)
class FaultKind:
    """One row of the catalogue.

    Attributes:
        number: row of docs/spec/chaos.md 3.2.
        seconds: how long it lasts, least and most; (0, 0) for a fault without a duration.
        weight: how likely a random schedule draws it, relative to the others.
        simulated: schedules in the simulator have it too (chaos/sim/kinds/table.py).
        safe: the cluster must not lose data under it; False for negative controls, which do lose
            data and are never drawn unless a setting names them.
    """

    number: int
    name: str
    text: str
    driver: Driver
    takes: Takes
    targets: tuple[Target, ...] = ONE
    seconds: tuple[float, float] = (0.5, 3.0)
    weight: float = 1.0
    simulated: bool = True
    safe: bool = True


_N, _O, _M, _A = Takes.NODE, Takes.NOTHING, Takes.MINORITY, Takes.EVERYTHING
_ALL = (Target.ALL,)
# MINORITY stands three times, as it is drawn seldom otherwise: it rarely fits beside other faults.
_GROUPS = (*CHOSEN, *3 * (Target.MINORITY,), Target.ALL)

KINDS: tuple[FaultKind, ...] = (
    FaultKind(1, "kill", "SIGKILL, started again", Driver.PROCESS, _N, _GROUPS),
    FaultKind(2, "stop", "SIGTERM, a clean stop, started again", Driver.PROCESS, _N, CHOSEN),
    FaultKind(3, "crash-loop", "killed again during its recovery", Driver.PROCESS, _N, CHOSEN),
    FaultKind(4, "pause", "SIGSTOP, later SIGCONT", Driver.PROCESS, _N, CHOSEN),
    FaultKind(5, "cpu", "5 % of a processor, or stutter", Driver.CGROUP, _N, CHOSEN),
    FaultKind(6, "power-loss", "power cut: un-synced bytes are gone", Driver.LOOP, _N, CHOSEN),
    FaultKind(7, "power-all", "power cut of every node at once", Driver.LOOP, _A, _ALL, (0.1, 0.5)),
    FaultKind(8, "power-partial", "power cut, some pages written", Driver.LOOP, _N, CHOSEN),
    FaultKind(9, "torn-tail", "power cut, a record half written", Driver.LOOP, _N, CHOSEN),
    FaultKind(10, "disk-full", "ENOSPC, later space returns", Driver.SHIM, _N, CHOSEN),
    FaultKind(
        11,
        "file-limit",
        "RLIMIT_FSIZE: EFBIG on a write",
        Driver.PROCESS,
        _N,
        CHOSEN,
    ),
    FaultKind(12, "io-error", "EIO on write, sync or read", Driver.SHIM, _N, CHOSEN),
    FaultKind(13, "disk-slow", "slow or hung syncs", Driver.SHIM, _N, CHOSEN),
    FaultKind(
        14,
        "fsync-lies",
        "syncs that do nothing, then a power cut",
        Driver.SHIM,
        _A,
        _ALL,
        safe=False,
    ),
    FaultKind(15, "bit-rot", "flipped bits in files of a minority", Driver.FILES, _N, CHOSEN),
    FaultKind(
        16,
        "rollback",
        "a region of a file is as it was before",
        Driver.FILES,
        _N,
        CHOSEN,
    ),
    FaultKind(17, "wipe", "folder lost: the node must refuse to start", Driver.FILES, _N, CHOSEN),
    FaultKind(18, "partition", "one or more cut off from the others", Driver.LINK, _N, _GROUPS),
    FaultKind(19, "one-way", "can send and not receive, or the reverse", Driver.LINK, _N, CHOSEN),
    FaultKind(20, "ring", "some edges cut: an edge, a bridge, a ring of five", Driver.LINK, _M),
    FaultKind(21, "flap", "links that fail and heal quickly", Driver.LINK, _N, CHOSEN),
    FaultKind(22, "clog", "bytes held, all delivered later in order", Driver.LINK, _N, CHOSEN),
    FaultKind(23, "latency", "delay and jitter", Driver.LINK, _O, (*CHOSEN, Target.ALL)),
    FaultKind(24, "bandwidth", "bytes per second are capped", Driver.LINK, _O, CHOSEN),
    FaultKind(25, "reset", "connections end in mid-frame", Driver.LINK, _O, (*CHOSEN, Target.ALL)),
    FaultKind(
        26, "slice", "bytes arrive a few at a time", Driver.LINK, _O, CHOSEN, simulated=False
    ),
    FaultKind(
        27, "loss", "lost packets: stalls until they are sent again", Driver.LINK, _O, CHOSEN
    ),
    FaultKind(28, "corrupt", "flipped bits in a stream", Driver.LINK, _N, CHOSEN),
    FaultKind(29, "replay", "requests of clients arrive twice", Driver.LINK, _O, CHOSEN),
    FaultKind(
        30,
        "syn-hole",
        "connects time out, open ones live",
        Driver.LINK,
        _O,
        CHOSEN,
        simulated=False,
    ),
    FaultKind(31, "clock", "clock jumps and drifts", Driver.NODE, _N, CHOSEN),
    FaultKind(32, "membership", "members removed, added, replaced", Driver.MEMBERS, _N, CHOSEN),
    FaultKind(33, "transfer", "leadership handed over", Driver.NODE, _O, (Target.LEADER,)),
    FaultKind(34, "client", "clients vanish, stall, come and go, storm", Driver.CLIENT, _O, _ALL),
    FaultKind(
        35, "squeeze", "no descriptors or memory left", Driver.PROCESS, _N, CHOSEN, simulated=False
    ),
    FaultKind(
        36, "version-skew", "one node runs an older commit", Driver.VERSIONS, _N, simulated=False
    ),
    FaultKind(37, "failpoint", "dies at a named place in the code", Driver.NODE, _N, CHOSEN),
    FaultKind(
        38,
        "snapshot-cut",
        "dies while a log file is begun",
        Driver.NODE,
        _N,
        CHOSEN,
    ),
)

LONG_COURSE_SECONDS = 5.0

#: Choreographies: several faults in a fixed order, by name. No other fault runs meanwhile
#: (drivers/choreographies.py). The last number is its seconds on the reference machine, recovery
#: included, which a schedule keeps free. They are drawn seldom, because they keep other faults out.
CHOREOGRAPHIES: tuple[FaultKind, ...] = tuple(
    FaultKind(
        0,
        name,
        text,
        driver,
        _A,
        _ALL,
        (seconds, seconds),
        weight=0.3 if seconds <= LONG_COURSE_SECONDS else 0.2,
        simulated=False,
    )
    for name, text, driver, seconds in (
        ("one-edge-cut", "the edge leader–follower is cut", Driver.LINK, 3),
        ("old-leader-returns-with-queue", "the leader's messages arrive late", Driver.LINK, 2),
        ("disk-hang-leader", "the leader's disk hangs", Driver.SHIM, 4),
        ("power-all-under-load", "power cut of all in the middle of writes", Driver.LOOP, 3),
        ("power-all-before-the-sync", "power cut of all while syncs hang", Driver.SHIM, 4),
        ("rolling-restart-under-load", "clean stops of all in turn", Driver.PROCESS, 9),
        ("vote-then-power-loss", "power cut right after a vote was granted", Driver.LOOP, 3),
        ("snapshot-while-partitioned", "cut off until the log begins later", Driver.LINK, 2),
        ("far-behind-joins-by-state", "down until the log begins later", Driver.PROCESS, 3),
        ("killed-while-sent-state", "dies as a state reaches it", Driver.LINK, 3),
        ("remove-partitioned-member", "removed while it cannot hear it", Driver.MEMBERS, 5),
        ("leader-flap-figure-8", "leaders die after reaching one follower", Driver.LINK, 8),
        ("bitrot-minority-then-lead", "a rotten follower is asked to lead", Driver.FILES, 8),
        ("old-copy-returns", "put back from a backup: it must stop", Driver.FILES, 5),
        ("nats-amnesia-pause", "a majority of a stale and a wiped node", Driver.LOOP, 9),
        ("nats-amnesia-partition", "the same, made by cut links", Driver.LOOP, 8),
    )
)

#: Kinds of the shim driver that cut the power, too, and so need loop disks as well.
CUT_BY_SHIM = ("fsync-lies", "power-all-before-the-sync")

#: Kinds that make sense for a cluster of one node. The others need a second node: to lose contact
#: with, to hand the lead to, or to repair damage from.
ALONE = (
    *("kill", "stop", "crash-loop", "pause", "cpu", "file-limit", "squeeze", "version-skew"),
    *("power-loss", "power-all", "power-partial", "torn-tail", "fsync-lies"),
    *("disk-full", "io-error", "disk-slow", "wipe", "clock", "failpoint", "snapshot-cut"),
    *("client", "partition", "flap", "latency", "reset", "slice", "loss", "replay", "syn-hole"),
)

BY_NAME = {kind.name: kind for kind in (*KINDS, *CHOREOGRAPHIES)}


def kind_of(name: str) -> FaultKind:
    """The kind or choreography of that name. Raises ValueError that lists the names there are."""
    found = BY_NAME.get(name)
    if found is None:
        raise ValueError(f"there is no fault {name!r}; there are {', '.join(sorted(BY_NAME))}")
    return found


#: Words that stand for many kinds: every safe one, every choreography.
SETS = {
    "all": tuple(kind.name for kind in KINDS if kind.safe),
    "choreographies": tuple(kind.name for kind in CHOREOGRAPHIES),
}


def kinds_named(words: Iterable[str]) -> tuple[str, ...]:
    """Names of kinds; a word of `SETS` gives all of its kinds. Raises ValueError for others."""
    return tuple(name for word in words for name in SETS.get(word) or [kind_of(word).name])
