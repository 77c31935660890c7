"""Checks the fields of each file in a run's folder; the writing modules say how the fields are
meant.

    env.json, verdict.json                  folder.py, replay/folder.py
    ended.json                              evidence_files.py
    faults.jsonl                            nemesis.py, Happened
    nodes.jsonl, cluster/*/trace.jsonl      observer.py, node_trace.py
    replicas.json, copies.json              folder.py, copies_json.py
    messages.jsonl                          replay/record.py

Earlier versions wrote fewer fields: those may be absent, and may not be wrong. Each function raises
ValueError for what is none of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos.checkers.elections import Links
from chaos.strict import (
    COUNT,
    INDEX,
    LENGTH,
    NUMBER,
    OBJECT,
    TEXT,
    TRUTH,
    WHOLE,
    Shape,
    check,
    list_of,
    mapping_of,
    maybe,
    parse,
    row_of,
    shown,
)

NODES_MAX = 9
SECONDS_MAX = 1e6  # eleven days, as on the command line (chaos/tools/numbers.py)
SALT_MAX = 1000  # so many numbers are drawn; a search needs three (replay/shrink.py)

_NODES = Shape(f"1 to {NODES_MAX}", lambda value: type(value) is int and 1 <= value <= NODES_MAX)
_SECONDS = Shape(
    f"a number, above 0 and up to {SECONDS_MAX:g}",
    lambda value: LENGTH.fits(value) and 0 < value <= SECONDS_MAX,
)
_SETTINGS = {"nodes": _NODES, "seconds": _SECONDS}
_LIMITS = {"gap_seconds_max": LENGTH, "converge_seconds_max": LENGTH, "acked_min": COUNT}
_SALT = Shape(f"0 to {SALT_MAX}", lambda value: type(value) is int and 0 <= value <= SALT_MAX)
_PLANNED = {"number": COUNT, "at": LENGTH, "kind": TEXT, "target": TEXT, "seconds": LENGTH} | {
    "chance": WHOLE
}
_SIMULATED = {"nodes": _NODES, "seconds": _SECONDS, "profile": mapping_of(TRUTH)} | {
    "planned": TRUTH,
    "kept": maybe(list_of(COUNT)),
    "salt": _SALT,
    "calm": TRUTH,
    "mutant": TEXT,
}
_FAULT = {"number": COUNT, "kind": TEXT, "target": TEXT, "nodes": list_of(TEXT)} | {
    "planned_at": LENGTH,
    "planned_seconds": LENGTH,
    "began": maybe(NUMBER),
    "ended": maybe(NUMBER),
    "recovery_seconds": LENGTH,
    "took_effect": TRUTH,
    "seen": TEXT,
    "error": TEXT,
}
_NOTES = {"cuts": COUNT, "lost_pages": COUNT, "power_gone": row_of(NUMBER, NUMBER)} | {
    "majority_whole": list_of(row_of(NUMBER, maybe(NUMBER))),
    "aim_missed": TEXT,
    "broken": TEXT,
    "unnoticed": TEXT,
    "overwritten": TEXT,
    "wall_ms": NUMBER,
}
_GENERATION = row_of(COUNT, COUNT)
_STANDING = {"role": TEXT, "term": COUNT, "committed": INDEX, "last": INDEX}
_LOOK = _STANDING | {"time": NUMBER, "node": TEXT, "boot": COUNT}
_LOOK_MORE = {"vote": maybe(TEXT), "begins": maybe(COUNT), "no_op": maybe(INDEX)} | {
    "configuration": maybe(INDEX),
    "life": COUNT,
    "generation": _GENERATION,
}
_TRACE = _STANDING | {"at": NUMBER, "vote": TEXT, "leader": TEXT}
_TRACE_MORE = {"boot": WHOLE, "life": WHOLE, "members": list_of(TEXT)} | {
    "generation": _GENERATION,
    "configuration": INDEX,
    "changing": list_of(INDEX),
    "no_op": INDEX,
    "links": row_of(COUNT, TEXT),
}
_MESSAGE = {"kind": TEXT, "from": TEXT, "to": TEXT, "term": INDEX} | {
    "sent": NUMBER,
    "received": maybe(NUMBER),
}
_LOG_END = {"node": TEXT, "entry": COUNT, "term": COUNT, "chain": TEXT, "value": TEXT} | {
    "on_disk": TRUTH,
}
_ENDED = {"converged_seconds": maybe(LENGTH), "anomalies": list_of(OBJECT)}
_ENDED_MORE = {"load_seconds": LENGTH, "watched_seconds": LENGTH, "log_begins": COUNT} | {
    "acked_without_place": list_of(TEXT)
}
_SIMULATED_ENDED = {"violation": TEXT, "detail": TEXT, "unfinished": list_of(TEXT)}
_WORD = Shape("valid, invalid or unknown", lambda value: value in ("valid", "invalid", "unknown"))
_VERDICT = {
    "violations": COUNT,
    "lost": COUNT,
    "doubled": COUNT,
    "reordered": COUNT,
    "others": COUNT,
    "unknown_because": list_of(TEXT),
    "not_checked": mapping_of(TEXT),
    "anomaly_counts": mapping_of(COUNT),
    "faults": OBJECT,
    "trace_hash": TEXT,
    "again": TEXT,
    "copies": maybe(OBJECT),
    **_ENDED,
    **_ENDED_MORE,
    **_SIMULATED_ENDED,
}
_LOG = list_of(row_of(COUNT, TEXT))
_REGION = {"start": COUNT, "size": COUNT, "chunks": TEXT}


def check_env(found: Mapping[str, Any]) -> None:
    """env.json of either arena."""
    check(found, {"settings": OBJECT, "schedule": list_of(OBJECT), "seed": WHOLE})
    simulated = found.get("arena") == "simulator"
    if simulated:
        check(found, _SIMULATED)
    for place, row in enumerate(found["schedule"]):
        _within(f"schedule, fault {place}", row, _PLANNED)
    _within("settings", found["settings"], _SETTINGS if simulated else _SETTINGS | _LIMITS)
    load = found["settings"].get("workload", {})
    _within("settings.workload", load, {}, {"rate": LENGTH})


def check_verdict(found: Mapping[str, Any]) -> None:
    """verdict.json, of whichever version."""
    check(found, {"verdict": _WORD, "acked": COUNT}, _VERDICT)
    _check_anomalies(found)


def check_ended(found: Mapping[str, Any]) -> None:
    """ended.json: a simulated run's names a violation, a live one's does not."""
    check(found, {"files": OBJECT, "sha256": TEXT})
    if "violation" in found:
        check(found, _SIMULATED_ENDED)
    else:
        check(found, _ENDED, _ENDED_MORE)
    _check_anomalies(found)


def _check_anomalies(found: Mapping[str, Any]) -> None:
    for one in found.get("anomalies", ()):
        _within("anomalies", one, {"name": TEXT, "detail": TEXT})


def fault(line: str) -> dict[str, Any]:
    """A line of faults.jsonl."""
    row = check(parse(line), _FAULT, _NOTES)
    began, ended = row["began"], row["ended"]
    if ended is not None and (began is None or ended < began):
        raise ValueError(f"it ended at {ended} and began at {began}")
    return row


def look(line: str) -> dict[str, Any]:
    """A line of nodes.jsonl."""
    return check(parse(line), _LOOK, _LOOK_MORE)


def trace(found: Any) -> dict[str, Any]:
    """A line of a node's trace that is JSON."""
    row = check(found, _TRACE, _TRACE_MORE)
    if "boot" in row and "life" not in row:
        raise ValueError("life is missing")
    links(row)
    return row


def links(row: Mapping[str, Any]) -> Links | None:
    """Checksums behind the last entries of a new leader's log; None of other lines.

    Raises ValueError when they are no digits.
    """
    if "links" not in row:
        return None
    first, digits = row["links"]
    return Links(first, bytes.fromhex(digits))


def generation(row: Mapping[str, Any]) -> tuple[int, int] | None:
    """Generation of the folder of a row's node; None if there was none, or if the row has none."""
    number, token = row.get("generation", (0, 0))
    return (number, token) if number else None


def log_end(line: str) -> dict[str, Any]:
    """A line of logs.jsonl."""
    return check(parse(line), _LOG_END)


def message(line: str) -> dict[str, Any]:
    """A line of messages.jsonl."""
    return check(parse(line), _MESSAGE)


def check_replicas(found: Mapping[str, Any]) -> None:
    """replicas.json: node → queue → [[queue offset, value], …]."""
    for node, queues in found.items():
        if type(queues) is not dict:
            raise ValueError(f"{node} is {shown(queues)} and must be an object")
        for queue, log in queues.items():
            if not _LOG.fits(log):
                raise ValueError(f"{node}, {queue} must be {_LOG.words}")


def check_copies(found: Mapping[str, Any]) -> None:
    """copies.json; hexadecimal digits are checked when they are read (copies_json.py)."""
    changes = list_of(row_of(INDEX, list_of(TEXT), list_of(TEXT)))
    must = {"first": INDEX, "last": INDEX, "unreadable": mapping_of(TEXT), "nodes": OBJECT}
    check(found, must, {"changes": maybe(changes), "links": TEXT})
    for node, row in found["nodes"].items():
        _within(node, row, {"chain": TEXT, "regions": OBJECT})
        for name, region in row["regions"].items():
            _within(f"{node}, {name}", region, _REGION)


def _within(
    where: str, found: Any, must: Mapping[str, Shape], may: Mapping[str, Shape] | None = None
) -> None:
    try:
        check(found, must, may)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
