"""The file in which finished runs are counted: one JSON object a line, both arenas in one file.

    {"arena": "simulator", "code": {…}, "profile": "drawn", "chunk": "0..100 …", "seeds": 100, …}
    {"arena": "live", "code": {…}, "profile": "chaos-power", "run": <folder>, "power_cuts": 312, …}

`code` has the key of every subsystem (code_key.py) as it was then: a bar counts the rows in which
the key of its subsystem is that of the code as it is now. Other rows are kept. A line that a crash
cut short, or is damaged in another way, counts as not written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from chaos.counts.code_key import REPLICA, code_keys

SIMULATOR, LIVE = "simulator", "live"
#: Name of the file in the evidence folder (chaos/tools/evidence.py), unless the user names another.
COUNTS_FILE = "counts.jsonl"

Row = dict[str, Any]

_NUMBERS = {
    SIMULATOR: ("seeds", "violations", "seconds", "cpu_seconds", "acked"),
    LIVE: ("seconds", "acked", "lost", "power_cuts", "faults_total"),
}
_WORDS = {SIMULATOR: ("profile", "chunk"), LIVE: ("profile", "verdict", "run")}
_CHUNK = re.compile(r"\d+\.\.\d+( |$)")


def read_rows(path: Path) -> list[Row]:
    """All whole lines; [] when there is no file yet."""
    return [row for row in whole_lines(path) if _is_whole(row)]


def whole_lines(path: Path) -> Iterator[Row]:
    """The object of each line that was not cut short; empty when there is no file yet."""
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield row


def add_line(path: Path, row: Row) -> None:
    """Add one object. A line that was cut short must not swallow it."""
    start = "" if not path.exists() or path.read_bytes()[-1:] in (b"", b"\n") else "\n"
    with path.open("a", encoding="utf-8") as file:
        file.write(start + json.dumps(row) + "\n")


def _is_whole(row: Row) -> bool:
    arena = row.get("arena")
    if arena not in (SIMULATOR, LIVE):
        return False
    numbers, words = _NUMBERS[arena], _WORDS[arena]
    return (
        all(isinstance(row.get(name), int | float) for name in numbers)
        and all(isinstance(row.get(name), str) for name in words)
        and isinstance(row.get("code"), dict)
        and (arena == LIVE or _CHUNK.match(row["chunk"]) is not None)
    )


def is_of(row: Row, subsystem: str, codes: Mapping[str, str]) -> bool:
    """True if the row was counted with the subsystem's present code; `codes` holds the present
    keys."""
    return subsystem in codes and row["code"].get(subsystem) == codes[subsystem]


def seeds_of_this_code(path: Path) -> list[Row]:
    """Returns the simulator's rows that still count: those made with the present code of the
    replica."""
    codes = code_keys()
    rows = read_rows(path)
    return [row for row in rows if row["arena"] == SIMULATOR and is_of(row, REPLICA, codes)]


def add_row(path: Path, arena: str, profile: str, fields: Mapping[str, Any]) -> None:
    """Count one finished run, or one finished chunk of seeds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    add_line(path, {"arena": arena, "code": code_keys(), "profile": profile, **fields})


def add_live_run(path: Path, profile: str, said: Mapping[str, Any]) -> None:
    """Adds a row for a live run with fields of its verdict.json."""
    names = ("verdict", "seed", "acked", "lost", "doubled", "reordered", "power_cuts")
    fields = {name: said[name] for name in names}
    fields["run"] = Path(said["folder"]).name
    fields["seconds"] = said["load_seconds"]
    fields["faults_total"] = said["faults"]["took_effect"]
    fields["kinds"] = said["faults"]["kinds"]
    fields["lost_pages"] = said["lost_pages"]
    add_row(path, LIVE, profile, fields)
