"""One run: a cluster, its clients, its faults and its judge, from one seed.

safety phase     `seconds` of operations under faults, every invariant after every event
liveness phase   all faults end; a leader, answers for every client and equal logs must follow
silence          machines and links fail while no client asks: equal logs must follow (silence.py)
last blow        every machine loses its power and everything un-synced; the log must still be
                 there, and the history is judged against what each replica holds
"""

from __future__ import annotations

import functools
import gc
import time
from dataclasses import dataclass, field
from random import Random

from chaos.checkers.anomaly import Log
from chaos.checkers.verdict import Verdict, Word, judge
from chaos.history import Kind, Outcome
from chaos.sim import by_profile, lost_files
from chaos.sim.clients import Appender, ClientEnvironment, open_clients
from chaos.sim.clocks import Clocks
from chaos.sim.course import FROM_SEED, Begun, Course
from chaos.sim.disk import CutPolicy
from chaos.sim.former_processes import FormerProcesses
from chaos.sim.host_beats import LONGEST_PAUSE, HostBeats
from chaos.sim.members import SPARES, Churn, MemberWatch, hello_member, with_members
from chaos.sim.nemesis import Nemesis
from chaos.sim.network import CALM, Network, Pipe
from chaos.sim.node import SimNode
from chaos.sim.observer import describe
from chaos.sim.profile import USUAL, Profile
from chaos.sim.random_nemesis import RandomNemesis
from chaos.sim.scheduler import Scheduler
from chaos.sim.scripted_nemesis import ScriptedNemesis
from chaos.sim.service import NodeService
from chaos.sim.silence import BLOWS, DISK_BLOWS, Silence
from chaos.sim.trace import Trace
from chaos.sim.trimming import Trimmer
from chaos.sim.watch import Violated, Watch
from dledger.core.types import NodeId

#: Virtual seconds that a healed cluster may take to elect, answer everybody and become equal.
LIVENESS_MAX = 20.0
STEP = 0.25
LOSE_ALL = CutPolicy(sector_kept=0.0, name_kept=0.0)


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of one seed.

    Attributes:
        violation: name of what was wrong, "" when all was well.
        seconds: virtual ones.
        begun: every fault that was carried out, in order.
    """

    seed: int
    nodes: int
    violation: str
    detail: str
    seconds: float
    cpu_seconds: float
    events: int
    checks: int
    operations: int
    acked: int
    lost: int
    doubled: int
    reordered: int
    faults: dict[str, int] = field(default_factory=dict)
    trace_hash: str = ""
    begun: tuple[Begun, ...] = ()


class World:
    """Builds and runs one seed. With `story`, its trace also keeps lines for a reader."""

    WATCH: type[Watch] = Watch
    hosts: HostBeats | None = None

    def __init__(
        self,
        seed: int,
        nodes: int,
        seconds: float,
        *,
        story: bool = False,
        profile: Profile = USUAL,
        course: Course = FROM_SEED,
    ) -> None:
        self.seed, self.seconds, self._course, self._profile = seed, seconds, course, profile
        random = Random(f"dledger-sim-{seed}")
        self.options = by_profile.options_of(random, nodes, profile, course)
        machines, incarnations = nodes, None
        membership = profile.membership or profile.lost_files or course.changes_members()
        if membership:
            machines, incarnations = nodes + SPARES, list(range(1, nodes + SPARES + 1))
            self.options = with_members(self.options, profile)
        self.scheduler = Scheduler()
        self.trace = Trace(self.scheduler, story=story)
        self.watch = self.WATCH(machines, self.trace)
        self.nodes = [
            SimNode(
                index,
                self.scheduler,
                random,
                self.options,
                self.watch,
                machines=machines,
                incarnations=incarnations,
            )
            for index in range(machines)
        ]
        by_profile.add_duties(self.nodes, profile)
        self._first = nodes
        self.churn: Churn | None = None
        if membership:
            self.churn = Churn(self.nodes, random, self._replace, self._lose_file)
            self.watch.members = MemberWatch(self.nodes)
        self.watch.attach(self.nodes)
        self.network = Network(
            self.scheduler,
            random,
            self.options.network,
            machines,
            self._deliver,
            lambda node, peer: self.nodes[node].peer_lost(peer),
        )
        self.former = FormerProcesses(seed, self.scheduler, self._again)
        if not course.calm:
            self.network.aftermath = self.former
        self.clocks = Clocks(seed, self.scheduler, self.nodes) if profile.lease_reads else None
        self._trims = profile.trims
        self.trimmer: Trimmer | None = None
        for node in self.nodes:
            node.network, node.trims = self.network, profile.trims
            if profile.lost_files:
                node.draw_incarnation = functools.partial(getattr, node, "incarnation")
            node.others = [functools.partial(hello_member, other) for other in self.nodes]
        self.random = random
        self.environment = ClientEnvironment(
            self.scheduler,
            random,
            self.options.load,
            [NodeService(node) for node in self.nodes],
            self.options.network.latency,
            lambda node: True,
        )
        self.appenders: list[Appender] = []
        self.nemesis: Nemesis | None = None

    def run(self) -> RunResult:
        """All phases; a violation ends the run and is in the result."""
        began = time.process_time()
        violation, detail, lost, doubled, reordered = "", "", 0, 0, 0
        try:
            self._safety()
            self._liveness()
            if not self._course.calm:
                self._silence()
            self._last_blow()
            verdict = self._judge()
            lost, doubled, reordered = verdict.lost, verdict.doubled, verdict.reordered
            if verdict.word is Word.INVALID:
                violation = verdict.anomalies[0].name
                detail = verdict.anomalies[0].detail
            elif verdict.word is Word.UNKNOWN:
                violation = "nothing-acknowledged"
                detail = f"of {self.environment.asked} operations, so the run proves nothing"
        except Violated as broken:
            violation, detail = broken.name, broken.detail
        except Exception as error:
            violation, detail = "exception", describe(error)
        history = self.environment.history
        return RunResult(
            self.seed,
            self._first,
            violation,
            detail,
            self.scheduler.now,
            time.process_time() - began,
            self.scheduler.handled,
            self.watch.checks,
            self.environment.asked,
            sum(op.kind is Kind.APPEND and op.outcome is Outcome.OK for op in history),
            lost,
            doubled,
            reordered,
            self.nemesis.counts if self.nemesis is not None else {},
            self.trace.digest(),
            tuple(self.nemesis.begun) if self.nemesis is not None else (),
        )

    # -- phases ------------------------------------------------------------------------------

    def _safety(self) -> None:
        if self.network.aftermath is self.former and self.former.drawn:
            self.trace.note("former-lives", "")
        if self._profile.quiescence:
            self.hosts = HostBeats(self.scheduler, self.nodes, self.network)
            self.hosts.begin()
        for node in self.nodes[: self._first]:
            node.start()
        if self._trims:
            self.trimmer = Trimmer(self.seed, self.scheduler, self.nodes)
        if self.clocks is not None:
            self.clocks.begin()
        self.appenders = open_clients(self.environment)
        self.nemesis = (RandomNemesis if self._course.schedule is None else ScriptedNemesis)(
            self.scheduler,
            self.random,
            self.options,
            self.nodes,
            self.network,
            self.environment,
            self.trace.note,
            self.churn,
            self._course,
        )
        self.scheduler.run_until(self.seconds)

    def _liveness(self) -> None:
        """Heal everything; the cluster must come to rest, equal everywhere, in bounded time."""
        assert self.nemesis is not None
        self.trace.note("heal-all", "")
        self._weather(False)
        for part in (self.trimmer, self.clocks):
            if part is not None:
                part.stop()
        self.nemesis.heal_all()
        committed, limit = len(self.watch.committed), self.scheduler.now + LIVENESS_MAX
        limit += LONGEST_PAUSE if self._profile.quiescence else 0.0
        self.scheduler.run_until(self.scheduler.now + 2.0)
        while len(self.watch.committed) == committed and self.scheduler.now < limit:
            self.scheduler.run_until(self.scheduler.now + STEP)
        if len(self.watch.committed) == committed:
            self.watch.violation("liveness", f"nothing is committed any more: {self._picture()}")
        self.environment.ask(False)
        self._settle("liveness")

    def _silence(self) -> None:
        """Faults while no client asks: no later entry hides a node that stays behind."""
        settled = functools.partial(self._settle, "liveness-in-silence")
        parts = self.scheduler, self.nodes, self.network, self._weather
        silence = Silence(self.seed, *parts, BLOWS | DISK_BLOWS)
        silence.play(self._members, self.environment.ask, self._all_answered, settled)

    def _weather(self, is_rough: bool) -> None:
        """The network and the clients' ways are those that the seed has drawn, or calm."""
        self.network.options = self.options.network if is_rough else CALM
        self.environment.loss = self.options.load.loss if is_rough else 0.0
        self.former.comes(is_rough)

    def _all_answered(self) -> bool:
        return not any(appender.unfinished for appender in self.appenders)

    def _settle(self, name: str, after: str = "healing") -> None:
        self.trace.note("settle", after)
        limit = self.scheduler.now + LIVENESS_MAX
        while self.scheduler.now < limit:
            self.scheduler.run_until(self.scheduler.now + STEP)
            if self.churn is not None:
                self.churn.tend()
            if self._at_rest():
                return
        self.watch.violation(name, f"{LIVENESS_MAX} s after {after}: {self._picture()}")

    def _at_rest(self) -> bool:
        """A leader, every append ended, and every node knows that all of its log is committed."""
        if not self._all_answered() or not any(node.leads for node in self.nodes):
            return False
        if self.churn is not None and not self.churn.settled():
            return False
        if any(node.repair_settings and node.disk.rotten("data") for node in self._members()):
            return False
        replicas = [node.replica for node in self._members()]
        lasts = {one.log.last for one in replicas if one is not None}
        return len(lasts) == 1 and all(
            one is not None and one.applied == one.node.commit == one.log.last.index
            for one in replicas
        )

    def _members(self) -> list[SimNode]:
        """The nodes that must have whole and equal logs at the end: the members."""
        return self.nodes if self.churn is None else self.churn.members()

    def _replace(self, node: SimNode) -> None:
        """A machine gets another disk."""
        self.trace.note("replace", node.id)
        self.watch.replaced(node)
        assert self.nemesis is not None
        self.nemesis.replaced(node)
        node.replace()

    def _lose_file(self, node: SimNode, name: str) -> None:
        """Lose both copies of a machine's small file."""
        deleted = self.random.random() < 0.25
        self.trace.note("lost-file", f"{node.id} {name}{' deleted' if deleted else ''}")
        if lost_files.forgets(name):
            self.watch.replaced(node)
        lost_files.lose(node, name, deleted=deleted)

    def _last_blow(self) -> None:
        """Cuts the power of all nodes at once, so that all un-synced writes are lost; committed
        entries must come back."""
        committed = len(self.watch.committed)
        self.trace.note("power-all", "")
        for node in self.nodes:
            node.crash(power=True, policy=LOSE_ALL)
        for node in self.nodes:
            node.start()
        self._settle("liveness-after-power-all")
        for node in self._members():
            assert node.replica is not None
            if node.replica.applied < committed - 1:
                self.watch.violation("lost-at-power-all", f"{node.id} has {node.replica.applied}")

    def _judge(self) -> Verdict:
        """Bytes of all replicas, then the clients' history."""
        members = self._members()
        if self.watch.members is not None and (splits := self.watch.members.splits()):
            self.watch.violation("membership", "; ".join(splits))
        logs_of = [node.storage.log for node in members if node.storage]
        begin = max(log.first_position for log in logs_of)
        end = max(log.end_position for log in logs_of)
        copies = {node.id: node.view.copy(begin, end) for node in members}
        if len(set(copies.values())) != 1:
            self.watch.violation("bytes-differ", self._first_difference(copies))
        logs: dict[str, Log] = {node.id: node.machine.values for node in members if node.machine}
        unfinished = [value for client in self.appenders for value in client.unfinished]
        return judge(self.environment.history, logs, unfinished=unfinished)

    def _again(self, pipe: Pipe, frame: bytes) -> None:
        self.network.receive(pipe, frame)

    def _deliver(self, pipe: Pipe, frame: bytes) -> None:
        self.nodes[pipe.target].receive(pipe, frame)

    # -- words -------------------------------------------------------------------------------

    def _picture(self) -> str:
        """One line on the role and log of each node, for a violation's detail."""
        parts = []
        for node in self.nodes:
            replica = node.replica
            if replica is None:
                parts.append(f"{node.id} down {node.refused}")
                continue
            core = replica.node
            parts.append(
                f"{node.id} {core.role.value} t{core.term} last {replica.log.last.index} "
                f"flushed {replica.log.flushed} commit {core.commit}"
            )
        waiting = [value for client in self.appenders for value in client.unfinished]
        return "; ".join(parts) + (f"; waiting for {waiting}" if waiting else "")

    @staticmethod
    def _first_difference(copies: dict[NodeId, bytes]) -> str:
        names = sorted(copies)
        base = copies[names[0]]
        for name in names[1:]:
            for at, (one, two) in enumerate(zip(base, copies[name], strict=False)):
                if one != two:
                    return f"{names[0]} and {name} differ at position {at}"
        return "files of different length"


@functools.cache
def _spare_what_is_loaded() -> None:
    """Modules live as long as the process: each collection would walk them, 4 % of all time."""
    gc.collect()
    gc.freeze()


def run_seed(
    seed: int,
    nodes: int,
    seconds: float,
    *,
    story: bool = False,
    profile: Profile = USUAL,
    course: Course = FROM_SEED,
) -> RunResult:
    """Runs one seed from the beginning. Its memory is freed at the end, because the garbage
    collector is off meanwhile."""
    collecting = gc.isenabled()
    _spare_what_is_loaded()
    gc.disable()
    try:
        return World(seed, nodes, seconds, story=story, profile=profile, course=course).run()
    finally:
        if collecting:
            gc.enable()
            gc.collect()
