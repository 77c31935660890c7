"""Small folders of runs, written by hand: what is in them is known to the last message."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from chaos.checkers.chains import chain
from chaos.checkers.copies import Copies, Copy, Region
from chaos.history import INFINITY, Kind, Operation, Outcome
from chaos.live.copies_json import to_fields
from chaos.live.evidence_files import read_ended, save_ended

COUNT = 40  # appends, one each quarter of a second, in turn to q0 and q1
ZERO = 1000.0  # of the monotonic clock, when the run began
SILENT = range(20, 24)  # nothing was acknowledged from 4.85 s to 6.1 s


def history() -> list[Operation]:
    """Appends of two clients; those of SILENT have no known outcome, and one was refused. The tail
    reader gets all that was acknowledged once it is over."""
    found: list[Operation] = []
    for n in range(COUNT):
        began, queue, place = n * 0.25, f"q{n % 2}", n // 2 - (n >= SILENT.stop) * 2
        name = f"p{n % 2}_{1000 * (n >= SILENT.stop)}" if n >= SILENT.stop else f"p{n % 2}"
        value = f"p{n % 2}-{n}"
        if n in SILENT:
            found.append(
                Operation(name, Kind.APPEND, value, began, INFINITY, Outcome.INFO, log=queue)
            )
        else:
            found.append(
                Operation(
                    name, Kind.APPEND, value, began, began + 0.1, Outcome.OK, place, log=queue
                )
            )
    refused = Operation("p<9>", Kind.APPEND, "p9-0", 1.0, 1.2, Outcome.FAIL, log="q0")
    return sorted([*found, refused, *_tail(found)], key=lambda op: op.invoked)


def _tail(appends: list[Operation]) -> list[Operation]:
    """One poll of each queue that gets everything, and one that is told that nothing follows."""
    polls = []
    for queue in ("q0", "q1"):
        ops = [op for op in appends if op.outcome is Outcome.OK and op.log == queue]
        got = tuple(sorted((op.offset, op.value) for op in ops))
        first = Operation("tail", Kind.POLL, "", 9.9, 9.95, Outcome.OK, 0, queue, got)
        polls += [first, replace(first, invoked=9.96, completed=9.97, offset=len(got), values=())]
    return polls


def replicas() -> dict[str, dict[str, list[tuple[int, str]]]]:
    """Every acknowledged append at its place on three nodes."""
    ops = [op for op in history() if op.kind is Kind.APPEND and op.outcome is Outcome.OK]
    log = {
        queue: [(op.offset, op.value) for op in ops if op.log == queue] for queue in ("q0", "q1")
    }
    return {node: {queue: list(rows) for queue, rows in log.items()} for node in ("n0", "n1", "n2")}


def copies() -> Copies:
    """Equal bytes on three nodes."""
    links = chain((1, b"%d" % n) for n in range(COUNT))
    regions = {"log": Region(0, 4000, (b"x" * 16,))}
    return Copies(0, COUNT - 1, {node: Copy(links, regions) for node in replicas()})


def faults() -> list[dict[str, Any]]:
    """A kill that worked and a pause that nobody saw."""
    common = {"target": "leader", "recovery_seconds": 0.5, "error": "", "nodes": ["n0"]}
    return [
        common
        | {"number": 0, "kind": "kill", "planned_at": 4.9, "planned_seconds": 0.5, "began": 4.9}
        | {"ended": 5.4, "took_effect": True, "seen": "n0 died <by> 9"},
        common
        | {"number": 1, "kind": "pause", "planned_at": 8.0, "planned_seconds": 0.5, "began": 8.0}
        | {"ended": 8.5, "took_effect": False, "seen": "", "error": "not stopped"},
    ]


def rows() -> list[dict[str, Any]]:
    """n0 leads until it dies at 4.9 s, n1 after 6 s; n0 is back at 6 s."""
    found = []
    for half in range(20):
        now = half / 2
        for node in ("n0", "n1", "n2"):
            if node == "n0" and 4.9 <= now < 6.9:
                continue
            term = 1 if now < 5.9 else 2
            leads = node == ("n0" if term == 1 else "n1")
            found.append(
                {"time": now, "node": node, "role": "leader" if leads else "follower"}
                | {"term": term, "committed": int(now * 4), "last": int(now * 4), "boot": 1}
            )
    return found


def traces() -> dict[str, list[dict[str, Any]]]:
    """What the nodes wrote themselves, in the run's seconds: the same story, to the moment."""

    def line(at: float, role: str, term: int, vote: str, leader: str, end: int) -> dict[str, Any]:
        return {"at": at, "role": role, "term": term, "vote": vote, "leader": leader} | {
            "committed": end,
            "last": end,
        }

    first = {"life": 7, "members": ["n0", "n1", "n2"]}
    return {
        "n0": [
            line(0.0, "candidate", 1, "n0", "", -1) | first | {"boot": 100},
            line(0.1, "leader", 1, "n0", "n0", 0),
            line(4.8, "leader", 1, "n0", "n0", 19),
            line(6.0, "follower", 2, "", "n1", -1) | first | {"boot": 101},
        ],
        "n1": [
            line(0.0, "follower", 1, "", "", -1) | first | {"boot": 200},
            line(0.05, "follower", 1, "n0", "", -1),
            line(0.11, "follower", 1, "n0", "n0", 0),
            line(5.6, "candidate", 2, "n1", "", 19),
            line(5.7, "leader", 2, "n1", "n1", 19),
        ],
        "n2": [
            line(0.0, "follower", 1, "", "", -1) | first | {"boot": 300},
            line(0.06, "follower", 1, "n0", "n0", 0),
            line(5.65, "follower", 2, "n1", "", 19),
            line(5.71, "follower", 2, "n1", "n1", 19),
        ],
    }


def write_lines(path: Path, found: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in found), "utf-8")


def all_seen(root: Path) -> Path:
    """The folder, with the pause seen to work."""
    found = [row | {"took_effect": True, "seen": "it did"} for row in faults()]
    write_lines(root / "faults.jsonl", found)
    return root


def write_traces(root: Path, found: dict[str, list[dict[str, Any]]]) -> None:
    """As the nodes of a run whose seconds began at ZERO leave them."""
    (root / "zero.json").write_text(json.dumps({"monotonic": ZERO}), "utf-8")
    for node, lines in found.items():
        path = root / "cluster" / node / "trace.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        texts = [json.dumps(line | {"at": line["at"] + ZERO}) + "\n" for line in lines]
        path.write_text("".join(texts), "utf-8")


def verdict(anomalies: list[dict[str, str]]) -> dict[str, Any]:
    lost = sum(one["name"].startswith("lost") for one in anomalies)
    return {
        "verdict": "invalid" if anomalies else "unknown",
        "acked": COUNT - len(SILENT),
        "lost": lost,
        "doubled": 0,
        "reordered": 0,
        "others": len(anomalies) - lost,
        "violations": len(anomalies),
        "anomalies": anomalies,
        "unknown_because": ["fault 1, pause, had no effect that was seen"],
        "operations": {"append": {"ok": 36, "fail": 1, "info": 4}, "poll": {"ok": 4}},
        "faults": {"carried_out": 2, "took_effect": 1, "kinds": {"kill": 1}},
        "converged_seconds": 0.25,
        "copies": {"first_index": 0, "last_index": 39, "files": 1, "bytes": 4000}
        | {"chains": {"n0": "9f31", "n1": "9f31", "n2": "9f31"}},
        "load_seconds": 10.0,
        "again": "dledger chaos run --seed 5",
    }


def listed(root: Path) -> Path:
    """The folder, with its evidence listed as it is now."""
    known = read_ended(root) or json.loads((root / "verdict.json").read_text("utf-8"))
    save_ended(
        root, {name: value for name, value in known.items() if name not in ("files", "sha256")}
    )
    return root


def _weather(since: float, **weights: float) -> dict[str, Any]:
    """As chaos/schedule.py draws them."""
    drawn = {"gap_min": 1.0, "gap_max": 3.0, "leader_aim": 0.5, "length": 0.3}
    return {**drawn, "weights": weights, "since": since}


def write_folder(
    root: Path,
    anomalies: list[dict[str, str]] | None = None,
    logs: dict[str, dict[str, list[tuple[int, str]]]] | None = None,
) -> Path:
    """A folder as `dledger chaos run` leaves it."""
    root.mkdir(parents=True)
    lines = {
        "history.jsonl": [op.to_json() for op in history()],
        "faults.jsonl": [json.dumps(row) for row in faults()],
        "nodes.jsonl": [json.dumps(row) for row in rows()],
    }
    for name, content in lines.items():
        (root / name).write_text("\n".join(content) + "\n", "utf-8")
    env = {
        "seed": 5,
        "commit": "abc",
        "settings": {"seconds": 10.0, "nodes": 3, "acked_min": 10}
        | {"gap_seconds_max": 3.0, "converge_seconds_max": 10.0},
        "schedule": [
            {"number": n, "at": at, "kind": kind, "target": "leader", "seconds": 0.5, "chance": n}
            for n, at, kind in ((0, 4.9, "kill"), (1, 8.0, "pause"))
        ],
        "swarm": [_weather(0.0, kill=1.0, pause=0.0), _weather(6.0, kill=0.0, pause=2.0)],
        "kinds": ["kill", "pause", "clock"],
        "skipped": {"power-loss": "needs root"},
    }
    values = {
        "verdict.json": verdict(anomalies or []),
        "env.json": env,
        "replicas.json": logs or replicas(),
        "copies.json": to_fields(copies()),
    }
    for name, value in values.items():
        (root / name).write_text(json.dumps(value), "utf-8")
    write_traces(root, traces())
    return root
