"""Chaos runs of a folder on the node's disk, with their reports: read only, below that folder only.

    <folder>/<run>/verdict.json    what the judge said; without it a run is not listed
                  /report.html     the report, where the run made one

`admin.chaos_runs` names the folder. What is listed is what verdict.json says; `dledger chaos check`
compares it with the run's evidence.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from cluster.console.api.bodies import clean
from cluster.console.api.changes import command
from cluster.console.api.failures import ApiError
from cluster.console.api.paging import bad_cursor, decode_cursor, encode_cursor
from cluster.console.api.source import Source
from cluster.console.api.table import INTEGER_MAX, Values

VERDICT, REPORT = "verdict.json", "report.html"
RUNS_MAX = 10_000
"""Folders that one request looks at."""
VERDICT_BYTES_MAX = 4 << 20
REPORT_BYTES_MAX = 16 << 20
Place = tuple[int, str]
"""Time of the verdict in ms since 1970, and the run's name: the order of the list, newest first."""


async def list_chaos_runs(source: Source, values: Values) -> dict[str, Any]:
    """A page of runs, the newest first. Raises ApiError for a folder that cannot be read."""
    folder = source.chaos_runs
    if folder is None:
        return {"folder": None, "runs": [], "total": 0, "cursor": None, "command": ""}
    behind = None if values["cursor"] is None else _place(values["cursor"])
    found = await asyncio.to_thread(_page, folder, behind, values["limit"])
    return {**found, "folder": str(folder), "command": command("chaos", "serve", folder)}


async def chaos_report(source: Source, values: Values) -> dict[str, Any]:
    """The report of one run, as its file has it. Raises ApiError (404, 413)."""
    folder, name = source.chaos_runs, values["run"]
    path = None if folder is None else _run_file(folder, name, REPORT)
    if path is None:
        raise ApiError(404, "no-report", f"{name!r:.80} has no report here; list the runs")
    try:
        data = await asyncio.to_thread(_read, path, REPORT_BYTES_MAX)
    except OSError as error:
        raise _unreadable(path, error) from error
    if data is None:
        size = f"{path} is larger than {REPORT_BYTES_MAX >> 20} MiB"
        raise ApiError(413, "report-too-large", f"{size}; open it on this machine")
    return {"run": name, "html": data.decode("utf-8", "replace")}


def _place(cursor: str) -> Place:
    match decode_cursor(cursor, list):
        case [int(at_ms), str(name)]:
            return at_ms, name
    raise bad_cursor()


def _page(folder: Path, behind: Place | None, limit: int) -> dict[str, Any]:
    places = _finished(folder)
    left = [place for place in places if behind is None or place < behind]
    page = left[:limit]
    rows = [row for place in page if (row := _row(folder, place)) is not None]
    cursor = encode_cursor(page[-1]) if len(left) > len(page) else None
    return {"runs": rows, "total": len(places), "cursor": cursor}


def _finished(folder: Path) -> list[Place]:
    """Runs with a verdict, the newest first; a link is another run's second name."""
    try:
        with os.scandir(folder) as entries:
            names = [one.name for _, one in zip(range(RUNS_MAX), entries, strict=False)]
    except OSError as error:
        raise _unreadable(folder, error) from error
    found = []
    for name in names:
        path = _run_file(folder, name, VERDICT)
        with contextlib.suppress(OSError):  # one that is removed meanwhile
            if path is not None:
                found.append((path.stat().st_mtime_ns // 1_000_000, name))
    return sorted(found, reverse=True)


def _run_file(folder: Path, name: str, file: str) -> Path | None:
    """The file of a run; None for one that is not there, or that links lead out of the run."""
    if not name.isprintable() or name in (".", "..") or "/" in name:
        return None
    run = folder / name
    path = run / file
    try:
        inside = not run.is_symlink() and path.resolve() == folder.resolve() / name / file
        return path if inside and path.is_file() else None
    except (OSError, RuntimeError, ValueError):
        return None


def _read(path: Path, most: int) -> bytes | None:
    """The whole file; None for a larger one."""
    with path.open("rb") as file:
        data = file.read(most + 1)
    return data if len(data) <= most else None


def _row(folder: Path, place: Place) -> dict[str, Any] | None:
    """None for a verdict that cannot be read: just being written, or not ours."""
    at_ms, name = place
    try:
        said = orjson.loads(_read(folder / name / VERDICT, VERDICT_BYTES_MAX) or b"")
    except (OSError, ValueError):
        return None
    if not isinstance(said, dict):
        return None
    faults = said.get("faults")
    faults = faults if isinstance(faults, dict) else {}
    return {
        "run": name,
        "at_ms": at_ms,
        "verdict": _verdict(said),
        **{key: _count(said, key) for key in ("acked", "lost", "doubled", "violations", "seed")},
        "faults": _count(faults, "carried_out"),
        "took_effect": _count(faults, "took_effect"),
        "has_report": _run_file(folder, name, REPORT) is not None,
    }


def _verdict(said: Mapping[str, Any]) -> str:
    """The judge's word; a demo writes `passed` instead."""
    word = said.get("verdict")
    if isinstance(word, str):
        return clean(word)[:40]
    passed = said.get("passed")
    return "unknown" if not isinstance(passed, bool) else "valid" if passed else "invalid"


def _count(said: Mapping[str, Any], key: str) -> int | None:
    value = said.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > INTEGER_MAX:
        return None
    return value


def _unreadable(path: Path, error: OSError) -> ApiError:
    what = f"{path} cannot be read ({error.strerror or error})"
    return ApiError(503, "runs-unreadable", f"{what}; correct admin.chaos_runs or its permissions")
