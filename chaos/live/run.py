"""One live run: real processes, a workload, a schedule of faults, a verdict, one folder.

disks, shims ─► arena up ─► clients ─► nemesis ─► caught up ─► clients stop ─► settle ─► down
                               └────── observer ──────────────────────────────────────┘      │
folder ◄─ verdict ◄─ judge ◄─ every replica's own files ◄────────────────────────────────────┘
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from chaos.checkers.queues import Replica
from chaos.drivers import loop_disk, remains, shim
from chaos.drivers.loop_disk import LoopDisks
from chaos.drivers.probe import why_not, why_not_among
from chaos.drivers.shim import Shims
from chaos.drivers.stage import NotUpAgain
from chaos.faults import CUT_BY_SHIM, Driver, Network, kind_of
from chaos.history import Operation
from chaos.live import convergence, namespaces, node_hooks, node_trace
from chaos.live.arena import Arena
from chaos.live.client_processes import ClientProcesses
from chaos.live.copies import read_copies
from chaos.live.deferred_watch import log_of
from chaos.live.evidence_files import save_evidence
from chaos.live.judgement import Evidence, Judgement, Limits, judge_run
from chaos.live.namespace_arena import NamespaceArena
from chaos.live.nemesis import Happened, Nemesis
from chaos.live.observer import Observer
from chaos.live.replicas import log_begins, read_queues
from chaos.live.settings import RunSettings
from chaos.live.streamed import Stream, Streamed
from chaos.live.toxic_arena import ToxicArena
from chaos.schedule import Planned, Swarm, draw, one_of_each
from cluster.local import plan, stories
from cluster.local.launcher import LocalCluster

TOPIC = "chaos"
NODE_MODULE = "chaos.live.node_main"
_Told = Callable[[Happened], None]
ARRIVAL_SECONDS_MAX = 25.0  # longer than ARRIVE_SECONDS_MAX (judgement.py) behind the last send


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a run: its faults and settings, all drawn before it begins.

    Attributes:
        swarm: one weather after the other.
        in_turn: each fault begins when the one before has ended.
        calm: no fault is what was asked for.
    """

    settings: RunSettings
    seed: int
    kinds: tuple[str, ...]
    skipped: Mapping[str, str]
    swarm: Sequence[Swarm]
    schedule: Sequence[Planned]
    in_turn: bool = False
    calm: bool = False

    @property
    def proves_nothing(self) -> str:
        """Returns why the run could not prove anything about faults, as a sentence; "" if it
        can.
        """
        if self.schedule or self.calm:
            return ""
        reasons = "; ".join(f"{kind}: {reason}" for kind, reason in self.skipped.items())
        if not self.kinds:
            left = reasons or "none was named"
            return f"no fault can be carried out here, so the run would prove nothing ({left})"
        length, quiet = self.settings.seconds, self.settings.quiet
        return (
            f"no fault fits into {length:g} s, {quiet:g} s of quiet at either end, so the run "
            "would prove nothing; give it more --seconds, or --each"
        )


def make_plan(settings: RunSettings, seed: int, *, each: bool = False) -> Plan:
    """Draw the schedule from the kinds that work here; with `each` every one of them once.

    Raises ValueError when there is no such network here, or none works. What is drawn may be no
    fault at all: ask the plan, `proves_nothing`.
    """
    if settings.network is Network.NAMESPACES and (reason := namespaces.why_not()):
        raise ValueError(f"--network namespaces {reason}")
    network = settings.network
    skipped = left_out(settings.kinds, settings.nodes, network)
    kinds = tuple(kind for kind in settings.kinds if kind not in skipped)
    if not kinds:
        raise ValueError(Plan(settings, seed, kinds, skipped, (), ()).proves_nothing)
    swarm, schedule = draw(seed, settings.bounds(kinds))
    if each:
        schedule = one_of_each(seed, settings.bounds(kinds))
    return Plan(settings, seed, kinds, skipped, swarm, schedule, each)


def left_out(kinds: Sequence[str], nodes: int, network: Network) -> dict[str, str]:
    """Kind → why it cannot be carried out on this machine, or in a cluster of this size."""
    reasons = {
        kind: why_not(kind, network) or why_not_among(kind, nodes, network) for kind in kinds
    }
    return {kind: reason for kind, reason in reasons.items() if reason}


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
            clients = ClientProcesses(
                arena.cluster.nameserver, TOPIC, settings.workload, planned.seed
            )
            await clients.start()
            node_trace.begin_time(root, clients.written.began)
            gone: list[Happened] = []
            heard = _both(gone.append, told)
            nemesis = Nemesis(
                arena, clients.now, clients=clients, disks=disks, shims=shims, told=heard
            )
            observer = Observer(arena, clients.now)
            async with observer, _streamed(root, clients, observer, gone):
                failure, caught_up = await _play(arena, nemesis, planned, clients)
                ended = clients.now()
                converged, last = await _converged(arena, caught_up)
                # What waits is due soon; the replicas are compared behind the last of it.
                watched = await clients.arrivals(0.0 if last is None else ARRIVAL_SECONDS_MAX)
                if last is not None and clients.has_deferred:
                    again = await convergence.settled(arena)
                    last = None if again is None else again[1]
                if last is not None:
                    await convergence.looked_over(arena)
        absent = {failure.node} if failure else set()
        copies = None
        if last is not None:
            copies = await asyncio.to_thread(read_copies, arena.cluster, last)
            absent |= copies.unreadable.keys()
        begins, replicas = await asyncio.to_thread(read_replicas, arena, absent)
    evidence = Evidence(
        clients.written.history,
        replicas,
        nemesis.happened,
        observer.trace(),
        clients.written.complaints,
        str(failure or ""),
        settings.nodes,
        ended,
        converged,
        copies,
        begins,
        clients.written.unplaced,
        watched=watched,
        mistakes=await asyncio.to_thread(_mistakes, arena.cluster),
    )
    limits = limits_of(settings)
    evidence, judgement = await asyncio.to_thread(_judge, root, evidence, observer.rows, limits)
    return Ran(judgement, evidence, observer.rows, time.monotonic() - began)


def _judge(
    root: Path, evidence: Evidence, rows: Sequence[dict[str, object]], limits: Limits
) -> tuple[Evidence, Judgement]:
    """Saves the evidence in the folder, adds the nodes' own traces and judges it. Returns (the
    evidence with the traces, the judgement)."""
    save_evidence(root, evidence, rows)
    told = [node_trace.told(row) for row in node_trace.read_traces(root)]
    evidence = replace(evidence, told=told)
    return evidence, judge_run(evidence, limits)


def _mistakes(cluster: LocalCluster) -> list[str]:
    """Returns the exceptions in the nodes' logs, one line each."""
    names = [member.name for member in cluster.profile.members]
    return [f"{name}: {said}" for name in names for said in stories.mistakes(cluster.folder(name))]


def _streamed(
    root: Path, clients: ClientProcesses, observer: Observer, gone: Sequence[Happened]
) -> Streamed:
    """Returns the streams that append history, node rows and faults to the run's folder as the run
    goes on."""
    return Streamed(
        Stream(root / "history.jsonl", clients.written.history, Operation.to_json),
        Stream(root / "nodes.jsonl", observer.rows, json.dumps),
        Stream(root / "faults.jsonl", gone, lambda one: json.dumps(one.to_fields())),
    )


def _both(first: _Told, second: _Told) -> _Told:
    def told(one: Happened) -> None:
        first(one)
        second(one)

    return told


def limits_of(settings: RunSettings) -> Limits:
    """Returns the limits by which the run is judged."""
    return Limits(
        settings.gap_seconds_max,
        settings.converge_seconds_max,
        settings.acked_min,
        settings.workload.rate,
    )


def _arena(root: Path, settings: RunSettings, hosts: Sequence[str]) -> Arena:
    nodes, of_nodes = settings.nodes, settings.node_settings
    if settings.network is Network.NAMESPACES:
        return NamespaceArena(root, nodes=nodes, settings=of_nodes)
    hosts = hosts or plan.scratch_hosts(nodes)
    if settings.network in (Network.TOXIPROXY, Network.TOXIPROXY_OWN):
        own = settings.network is Network.TOXIPROXY_OWN
        return ToxicArena(root, nodes=nodes, hosts=hosts, settings=of_nodes, own=own)
    return Arena(root, nodes=nodes, hosts=hosts, settings=of_nodes)


async def _play(
    arena: Arena, nemesis: Nemesis, planned: Plan, clients: ClientProcesses
) -> tuple[NotUpAgain | None, float | None]:
    """Load and faults: why it had to end early, and how soon all nodes had caught up.

    The first is None when it did not, the second when they did not in time.
    """
    failure = caught_up = None
    try:
        await nemesis.play(planned.schedule, in_turn=planned.in_turn)
        ends = [one.ended for one in nemesis.happened if one.ended is not None]
        healed = max(ends, default=clients.now())
        caught_up = await convergence.caught_up(arena, clients.now, healed)
        await asyncio.sleep(max(0.0, planned.settings.seconds - clients.now()))
    except NotUpAgain as error:
        failure = error
    await clients.stop()
    return failure, caught_up


async def _converged(arena: Arena, caught_up: float | None) -> tuple[float | None, int | None]:
    """Seconds until all replicas were at one end, and that end; Nones when it was not in time."""
    settled = None if caught_up is None else await convergence.settled(arena)
    if caught_up is None or settled is None:
        return None, None
    return round(caught_up + settled[0], 3), settled[1]


@contextlib.contextmanager
def equipped(
    arena: Arena, root: Path, kinds: Sequence[str]
) -> Iterator[tuple[LoopDisks | None, Shims | None]]:
    """Hooks in every node; disks of their own and shims when a kind needs them and they work.

    What runs that were killed left on this machine goes first.
    """
    for what in remains.sweep():
        print(f"taken away, left by a run that was killed: {what}", file=sys.stderr)
    owner = remains.owner()
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
            made.environment[name] = {
                node_hooks.FOLDER_VARIABLE: str(made.folder(name)),
                remains.VARIABLE: owner,
            }
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
    topics = log_of(TOPIC)
    return begins, {
        name: read_queues(at, cluster_id=cluster_id, node_id=name, topics=topics, begins=begins)
        for name, at in folders.items()
    }
