"""Records a simulated run in detail, for the parts of its folder beside the verdict.

    every event of a node ─► its trace (live/node_trace.py), a look every quarter of a second
    every message         ─► when it was sent, when it arrived or that it did not

It is the same run: nothing here draws a number or schedules anything, so the trace's hash is that
of the run without a record.

    history.jsonl  nodes.jsonl  faults.jsonl  replicas.json  cluster/<node>/trace.jsonl  zero.json
                                                          as of a live run (live/folder.py)
    logs.jsonl      of one that a violation ended: the ends of all logs (log_ends.py)
    messages.jsonl  {"kind": "VoteRequest", "from": "n0", "to": "n1", "term": 3,
                     "sent": 4.25, "received": 4.2503}    null: it never arrived as it was sent
"""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from chaos.checkers.verdict import Verdict
from chaos.live.node_trace import TRACE, NodeTrace, begin_time
from chaos.replay import log_ends
from chaos.sim.course import Begun
from chaos.sim.network import Pipe
from chaos.sim.node import SimNode
from chaos.sim.runner import Plan
from chaos.sim.watch import Watch
from chaos.sim.world import RunResult, World
from dledger.core.messages import Message, TimeoutNow, VoteReply, VoteRequest
from dledger.core.node import RaftNode
from dledger.core.types import NodeId
from dledger.wire.messages import encode

LOOK_SECONDS = 0.25
#: Elections are rare and few; of everything else the last ones are kept.
ELECTIONS_MAX, OTHERS_MAX = 4000, 2000
_OF_ELECTIONS = (VoteRequest, VoteReply, TimeoutNow)

Row = dict[str, Any]


class RecordingWatch(Watch):
    """A watch that also records the events that it sees.

    Attributes:
        root: folder of the run; `traces` go there as the run goes on.
        rows: looks at the nodes. elections, others: messages, oldest first.
    """

    root: Path

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.rows: list[Row] = []
        self.elections: deque[Row] = deque(maxlen=ELECTIONS_MAX)
        self.others: deque[Row] = deque(maxlen=OTHERS_MAX)
        self._under_way: OrderedDict[tuple[str, str, bytes], Row] = OrderedDict()
        self._traces: dict[str, tuple[RaftNode, NodeTrace]] = {}
        self._due: dict[str, float] = {}

    def stepped(self, node: SimNode) -> None:
        """Write the node's trace, and a row about it every LOOK_SECONDS of the node's clock."""
        if node.replica is not None and node.storage is not None:
            trace = self._trace_of(node)
            trace.look()
            if node.now >= self._due.get(node.id, 0.0):
                self._due[node.id] = node.now + LOOK_SECONDS
                self.rows.append(_look(node, node.replica.node))
        super().stepped(node)

    def _trace_of(self, node: SimNode) -> NodeTrace:
        """One for each run of its core: a crash ends it, and so does a state that was sent."""
        assert node.replica is not None
        assert node.storage is not None
        core, known = node.replica.node, self._traces.get(node.id)
        if known is not None and known[0] is core:
            return known[1]
        if known is not None:
            known[1].close()
        path = self.root / "cluster" / node.id / TRACE
        path.parent.mkdir(parents=True, exist_ok=True)
        scheduler = node.scheduler
        trace = NodeTrace(path, core, node.storage.hard, lambda: scheduler.now)
        self._traces[node.id] = core, trace
        return trace

    def sending(self, node: SimNode, to: NodeId, message: Message) -> None:
        """Note that the message was sent and has not arrived yet."""
        sent = node.scheduler.now
        pre = "Pre" if getattr(message, "pre", False) else ""
        row: Row = {"kind": pre + type(message).__name__, "from": node.id, "to": to}
        row |= {"term": getattr(message, "term", -1), "sent": round(sent, 6), "received": None}
        kept = self.elections if isinstance(message, _OF_ELECTIONS) else self.others
        kept.append(row)
        self._under_way[node.id, to, b"".join(encode(message))] = row
        if len(self._under_way) > OTHERS_MAX:
            self._under_way.popitem(last=False)
        super().sending(node, to, message)

    def arrived(self, source: str, target: str, frame: bytes, now: float) -> None:
        """A frame that was sent as it is; the second of two like it counts for the last one."""
        row = self._under_way.get((source, target, frame))
        if row is not None and row["received"] is None:
            row["received"] = round(now, 6)

    def close(self) -> None:
        """Close the files of all traces."""
        for _, trace in self._traces.values():
            trace.close()


class RecordedWorld(World):
    """A world with a record. `judged`: the run came to its end, so that the replicas' logs must
    agree."""

    WATCH = RecordingWatch
    watch: RecordingWatch
    judged = False

    def _judge(self) -> Verdict:
        self.judged = True
        return super()._judge()

    def _deliver(self, pipe: Pipe, frame: bytes) -> None:
        source, target = self.nodes[pipe.source].id, self.nodes[pipe.target].id
        self.watch.arrived(source, target, frame, self.scheduler.now)
        super()._deliver(pipe, frame)


def run_recorded(plan: Plan, root: Path, *, story: bool = False) -> tuple[RunResult, Row]:
    """Runs the plan's first seed with its record in `root`. Returns (its result, further fields of
    its verdict)."""
    seed = plan.first
    course = plan.recorded(seed).course
    world = RecordedWorld(
        seed, plan.nodes_of(seed), plan.seconds, story=story, profile=plan.profile, course=course
    )
    root.mkdir(parents=True, exist_ok=True)
    world.watch.root = root
    begin_time(root, 0.0)
    result = world.run()
    world.watch.close()
    _save(world, result, root)
    unfinished = [value for client in world.appenders for value in client.unfinished]
    return result, {"unfinished": unfinished, "load_seconds": plan.seconds}


def _save(world: RecordedWorld, result: RunResult, root: Path) -> None:
    watch = world.watch
    _write(root / "history.jsonl", (op.to_json() for op in world.environment.history))
    _write(root / "nodes.jsonl", map(json.dumps, watch.rows))
    _write(root / "faults.jsonl", map(json.dumps, _faults(result)))
    messages = sorted([*watch.elections, *watch.others], key=lambda row: float(row["sent"]))
    _write(root / "messages.jsonl", map(json.dumps, messages))
    logs: Mapping[str, Mapping[str, object]] = {}
    if world.judged:
        members = world._members()
        logs = {node.id: {"log": node.machine.values} for node in members if node.machine}
    else:
        _write(root / log_ends.FILE, map(json.dumps, log_ends.ends_of_logs(watch, world.nodes)))
    (root / "replicas.json").write_text(json.dumps(logs) + "\n", encoding="utf-8")


def _write(path: Path, lines: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)


def _look(node: SimNode, core: RaftNode) -> Row:
    """A line of nodes.jsonl."""
    return {
        "time": round(node.scheduler.now, 3),
        "node": node.id,
        "role": core.role.value,
        "term": core.term,
        "committed": core.commit,
        "last": core.log.last.index,
        "boot": node.boot,
    }


def _faults(result: RunResult) -> list[Row]:
    """Lines of faults.jsonl. The simulator carries a fault out or the run breaks: all took effect.

    A fault that lasts is healed when its time is over, or with all others at the end.
    """

    everybody = [f"n{machine}" for machine in range(result.nodes)]

    def words(one: Begun) -> str:
        lasts = f" for {one.seconds:g} s" if one.seconds else ""
        return f"{one.kind} on n{one.machine}{lasts}"

    return [
        {
            "number": one.number,
            "kind": one.kind,
            "target": "leader" if one.led else "follower",
            "planned_at": one.at,
            "planned_seconds": one.seconds,
            "nodes": everybody if one.kind.endswith("-all") else [f"n{one.machine}"],
            "began": round(one.at, 6),
            "ended": round(min(one.at + one.seconds, result.seconds), 6),
            "recovery_seconds": 0.0,
            "took_effect": True,
            "seen": f"{one.kind} on n{one.machine}"
            + (f" for {one.seconds:g} s" * bool(one.seconds)),
            "error": "",
        }
        for one in result.begun
    ]
