"""One live run: real processes, a workload, a schedule of faults, a verdict, one folder.

disks, shims ─► arena up ─► crowd ─► nemesis plays ─► crowd stops ─► settle ─► all down
                               └─ observer ─┘                                    │
folder ◄─ verdict ◄─ judge ◄─ every replica's own files ◄────────────────────────┘
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos.checkers.queues import Replica
from chaos.drivers import loop_disk, shim
from chaos.drivers.loop_disk import LoopDisks
from chaos.drivers.probe import why_not
from chaos.drivers.shim import Shims
from chaos.drivers.stage import NotUpAgain
from chaos.faults import CUT_BY_SHIM, Driver, Network, kind_of
from chaos.live import namespaces, node_hooks
from chaos.live.arena import Arena
from chaos.live.copies import read_copies
from chaos.live.crowd import Crowd
from chaos.live.judgement import Evidence, Judgement, Limits, judge_run
from chaos.live.namespace_arena import NamespaceArena
from chaos.live.nemesis import Happened, Nemesis
from chaos.live.observer import Observer
from chaos.live.replicas import log_begins, read_queues
from chaos.live.settings import RunSettings
from chaos.schedule import Planned, Swarm, draw, one_of_each
from cluster.local import plan

TOPIC = "chaos"
NODE_MODULE = "chaos.live.node_main"
SETTLE_SECONDS_MAX = 30.0  # longer than is allowed: how late it was shall be said


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run does, all of it drawn before it begins."""

    settings: RunSettings
    seed: int
    kinds: tuple[str, ...]
    skipped: Mapping[str, str]
    swarm: Swarm
    schedule: Sequence[Planned]
    in_turn: bool = False


def make_plan(settings: RunSettings, seed: int, *, each: bool = False) -> Plan:
    """Draw the schedule from the kinds that work here; with `each` every one of them once.

    Raises ValueError when none works here.
    """
    if settings.network is Network.NAMESPACES and (reason := namespaces.why_not()):
        raise ValueError(f"--network namespaces {reason}")
    network = settings.network
    skipped = {kind: reason for kind in settings.kinds if (reason := why_not(kind, network))}
    kinds = tuple(kind for kind in settings.kinds if kind not in skipped)
    swarm, schedule = draw(seed, settings.bounds(kinds))
    if each:
        schedule = one_of_each(seed, settings.bounds(kinds))
    return Plan(settings, seed, kinds, skipped, swarm, schedule, each)


@dataclass(frozen=True, slots=True)
class Ran:
    """A run that came to its end."""

    judgement: Judgement
    evidence: Evidence
    rows: Sequence[dict[str, object]]
    seconds: float


async def run(
    planned: Plan,
    root: Path,
    *,
    hosts: Sequence[str] = (),
    told: Callable[[Happened], None] = lambda _: None,
) -> Ran:
    """Run it in `root`, a folder that holds no cluster. Raises LauncherError, OSError."""
    began = time.monotonic()
    settings = planned.settings
    arena = _arena(root / "cluster", settings, hosts)
    with equipped(arena, root, planned.kinds) as (disks, shims):
        async with arena:
            crowd = Crowd(arena.cluster.nameserver, TOPIC, settings.workload, planned.seed)
            await crowd.start()
            nemesis = Nemesis(arena, crowd.now, clients=crowd, disks=disks, shims=shims, told=told)
            async with Observer(arena, crowd.now) as observer:
                failure = await _play(nemesis, planned, crowd)
                ended = crowd.now()
                converged, last = (None, None) if failure else await _converge(arena)
        absent = {failure.node} if failure else set()
        copies = None
        if last is not None:
            copies = await asyncio.to_thread(read_copies, arena.cluster, last)
            absent |= copies.unreadable.keys()
        begins, replicas = await asyncio.to_thread(read_replicas, arena, absent)
    evidence = Evidence(
        crowd.written.history,
        replicas,
        nemesis.happened,
        observer.trace(),
        crowd.written.complaints,
        str(failure or ""),
        settings.nodes,
        ended,
        converged,
        copies,
        begins,
        crowd.written.unplaced,
    )
    limits = Limits(settings.gap_seconds_max, settings.converge_seconds_max, settings.acked_min)
    judgement = await asyncio.to_thread(judge_run, evidence, limits)
    return Ran(judgement, evidence, observer.rows, time.monotonic() - began)


def _arena(root: Path, settings: RunSettings, hosts: Sequence[str]) -> Arena:
    nodes, of_nodes = settings.nodes, settings.node_settings
    if settings.network is Network.NAMESPACES:
        return NamespaceArena(root, nodes=nodes, settings=of_nodes)
    return Arena(root, nodes=nodes, hosts=hosts or plan.scratch_hosts(nodes), settings=of_nodes)


async def _play(nemesis: Nemesis, planned: Plan, crowd: Crowd) -> NotUpAgain | None:
    """Load and faults; why it had to end early, None when it did not."""
    failure = None
    try:
        await nemesis.play(planned.schedule, in_turn=planned.in_turn)
        await asyncio.sleep(max(0.0, planned.settings.seconds - crowd.now()))
    except NotUpAgain as error:
        failure = error
    await crowd.stop()
    return failure


async def _converge(arena: Arena) -> tuple[float | None, int | None]:
    """Seconds until all replicas are at one end, and that end; Nones when it is not in time."""
    began = time.monotonic()
    try:
        last = await arena.settled(SETTLE_SECONDS_MAX)
    except TimeoutError:
        return None, None
    return round(time.monotonic() - began, 3), last


@contextlib.contextmanager
def equipped(
    arena: Arena, root: Path, kinds: Sequence[str]
) -> Iterator[tuple[LoopDisks | None, Shims | None]]:
    """Hooks in every node; disks of their own and shims when a kind needs them and they work."""
    made = arena.cluster
    made.node_module = NODE_MODULE
    data = {name: made.folder(name) / "data" for name in made.brokers}
    drivers = {kind_of(kind).driver for kind in kinds}
    with contextlib.ExitStack() as stack:
        disks = shims = None
        if (Driver.LOOP in drivers or set(CUT_BY_SHIM) & set(kinds)) and not loop_disk.why_not():
            disks = stack.enter_context(LoopDisks(root / "disks", data))
        if Driver.SHIM in drivers and not shim.why_not():
            shims = Shims(root / "shims", data)
            stack.callback(shims.close)
        for name in made.brokers:
            made.environment[name] = {node_hooks.FOLDER_VARIABLE: str(made.folder(name))}
            if arena.network is not None:
                made.environment[name][namespaces.VARIABLE] = arena.network.name(name)
            if shims is not None:
                made.environment[name] |= shims.environment(name)
        yield disks, shims


def read_replicas(arena: Arena, absent: Collection[str] = ()) -> tuple[int, dict[str, Replica]]:
    """Where all logs have begun, and every replica's queues from there on, from its own files.

    But for `absent`; the cluster must be stopped.
    """
    made = arena.cluster
    folders = {
        name: made.folder(name) / "data" / f"dledger-{name}"
        for name in made.brokers
        if name not in absent
    }
    cluster_id = made.profile.cluster_id
    begins = max(
        (log_begins(at, cluster_id=cluster_id, node_id=name) for name, at in folders.items()),
        default=0,
    )
    return begins, {
        name: read_queues(at, cluster_id=cluster_id, node_id=name, topic=TOPIC, begins=begins)
        for name, at in folders.items()
    }
