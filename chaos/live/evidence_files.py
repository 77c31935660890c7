"""The evidence of a run as files of its folder, and ended.json, which lists it (folder.py).

    ended.json  {"load_seconds": 60.2, "converged_seconds": 0.4, "log_begins": 0,
                 "acked_without_place": [], "watched_seconds": 71.3,
                 "anomalies": [{"name": "damaged-answer", "detail": "…"}],
                 "files": {"history.jsonl": {"bytes": 81244, "lines": 633, "sha256": "9f31…"}, …},
                 "sha256": "c07a…"}

It is written when everything else is there and before anything is judged, so a run whose judge
failed can be judged again (`dledger chaos check`), and evidence that was emptied, cut or changed
since is not believed. The last field is of ended.json itself, without it. What stands beside
`files` is what only the running harness saw, under the names that it has in verdict.json; a
simulated run has other names there (replay/folder.py).

A folder of an earlier release has no such list, and a run that died has none either.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from chaos.checkers.copies import Copies
from chaos.checkers.queues import Replica
from chaos.live import copies_json
from chaos.live.evidence_rows import check_copies, check_ended, check_replicas, check_verdict
from chaos.live.json_files import read_json, write_json, write_lines
from chaos.live.judgement import Evidence

ENDED = "ended.json"
COPIES = "copies.json"
VERDICT = "verdict.json"
#: What reading and judging a damaged file may end with.
DAMAGE = (
    *(OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError),
    *(AssertionError, RecursionError),
)
#: What a judgement is made of.
_LISTED = (
    *("env.json", "history.jsonl", "faults.jsonl", "nodes.jsonl", "messages.jsonl"),
    *("logs.jsonl", "replicas.json", COPIES, "zero.json", "cluster/*/trace.jsonl"),
)
_CHUNK_BYTES = 1 << 20


def save_evidence(root: Path, evidence: Evidence, rows: Iterable[Mapping[str, object]]) -> None:
    """All of it; `rows` are those of nodes.jsonl (observer.py)."""
    write_lines(root / "history.jsonl", (op.to_json() for op in evidence.history))
    write_lines(root / "faults.jsonl", (_line(one.to_fields()) for one in evidence.happened))
    write_lines(root / "nodes.jsonl", map(_line, rows))
    write_json(root / "replicas.json", evidence.replicas)
    if evidence.copies is not None:
        write_json(root / COPIES, copies_json.to_fields(evidence.copies))
    told = [("damaged-answer", one) for one in evidence.complaints]
    told += [("not-up-again", evidence.failure)] if evidence.failure else []
    told += [("mistake", one) for one in evidence.mistakes]
    save_ended(
        root,
        {
            "load_seconds": evidence.seconds,  # the windows of a later check end there
            "converged_seconds": evidence.converged,
            "log_begins": evidence.begins,
            "acked_without_place": list(evidence.unplaced),
            "watched_seconds": evidence.watched,
            "anomalies": [{"name": name, "detail": detail} for name, detail in told],
        },
    )


def save_ended(root: Path, seen: Mapping[str, object]) -> None:
    """`seen` and the list of all evidence that is there now."""
    found = {path: _measure(root / path) for path in _present(root)}
    ended = {**seen, "files": found}
    write_json(root / ENDED, ended | {"sha256": _hash_of(ended)})


def read_ended(root: Path) -> dict[str, Any]:
    """Empty when there is none. Raises OSError, ValueError."""
    path = root / ENDED
    return read_json(path, check_ended) if path.exists() else {}


def differences(root: Path, ended: Mapping[str, Any], *, quick: bool = False) -> list[str]:
    """A sentence for each piece of evidence that is not as the run left it.

    `quick`: a file of the right size is not read.
    """
    if ended["sha256"] != _hash_of({key: ended[key] for key in ended if key != "sha256"}):
        return [f"{ENDED} is not as the run wrote it: another SHA-256"]
    listed = ended["files"]
    found = [f"{path} is none of the run's files" for path in _present(root) if path not in listed]
    found += [_difference(root, path, was, quick) for path, was in listed.items()]
    return [sentence for sentence in found if sentence]


def _difference(root: Path, name: str, was: Mapping[str, Any], quick: bool) -> str:
    path = root / name
    if not path.is_file():
        return f"{name} is missing: it had {was['lines']} lines, {was['bytes']} bytes"
    try:
        if quick and path.stat().st_size == was["bytes"]:
            return ""
        now = _measure(path)
    except OSError as error:
        return f"{name} cannot be read: {error.strerror}"
    if now["lines"] < was["lines"]:
        return f"{name} has {now['lines']} of its {was['lines']} lines"
    if now["bytes"] < was["bytes"]:
        return f"{name} has {now['bytes']} of its {was['bytes']} bytes"
    return "" if now == was else f"{name} is not as the run wrote it: another SHA-256"


def wrong_with(root: Path, *, quick: bool = False) -> tuple[list[str], bool]:
    """Compares a run's folder with the list that the run made of its files. Returns (differences as
    sentences, True if the run made such a list).

    A verdict is no evidence, and need not be there; one that cannot be read shows that something
    went over the folder.
    """
    wrong: list[str] = []
    listed = False
    try:
        said = root / VERDICT
        verdict = read_json(said, check_verdict) if said.exists() else {}
    except (OSError, ValueError) as error:
        verdict, wrong = {}, [sentence(error)]
    try:
        ended = read_ended(root)
        listed = bool(ended) or verdict.get("evidence") == ENDED
        if ended:
            wrong += differences(root, ended, quick=quick)
        elif listed:
            wrong.append(f"{ENDED}, which lists the evidence, is missing")
    except (OSError, ValueError) as error:
        listed = True
        wrong.append(f"nobody can tell whether the evidence is whole: {sentence(error)}")
    return (wrong, listed) if listed else ([], False)


def sentence(error: BaseException) -> str:
    """Returns one error of DAMAGE as a sentence: a read error names the file, a checker's error its
    own line."""
    if isinstance(error, OSError) and error.filename:
        return f"{Path(str(error.filename)).name} cannot be read: {error.strerror}"
    plain = isinstance(error, OSError | ValueError) and str(error)
    return str(error) if plain else f"{type(error).__name__}: {error}"


def read_replicas(root: Path) -> dict[str, Replica]:
    """The final logs of a run's folder. Raises OSError, ValueError."""
    found = read_json(root / "replicas.json", check_replicas)
    return {
        node: {queue: [(at, value) for at, value in log] for queue, log in queues.items()}
        for node, queues in found.items()
    }


def read_copies(root: Path) -> Copies | None:
    """The hashes of the replicas' bytes; None when they never came to one end.

    Raises OSError, ValueError.
    """
    path = root / COPIES
    if not path.exists():
        return None
    found = read_json(path, check_copies)
    try:
        return copies_json.from_fields(found)
    except ValueError as error:
        raise ValueError(f"{COPIES} cannot be read: {error}") from error


def _present(root: Path) -> list[str]:
    found = (path for pattern in _LISTED for path in root.glob(pattern))
    return sorted(str(path.relative_to(root)) for path in found)


def _hash_of(value: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _measure(path: Path) -> dict[str, Any]:
    digest, size, lines = hashlib.sha256(), 0, 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
            lines += chunk.count(b"\n")
    return {"bytes": size, "lines": lines, "sha256": digest.hexdigest()}


def _line(row: Mapping[str, object]) -> str:
    return json.dumps(row, separators=(",", ":"))
