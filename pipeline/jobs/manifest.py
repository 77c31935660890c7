"""The table of an archive: which files count, and that each queue is whole.

    <root>/MANIFEST.json                               replaced in one step; nothing else counts
           topic=…/date=…/queue=…/⟨job⟩-⟨task⟩.parquet files that a manifest names
           _staging/⟨job⟩/…                            of a job that runs, or was killed
           lock                                        one job at a time

What a crash may leave: staged files, and files that were moved into place and that no manifest
names. Readers see none of them; the next job removes them. The manifest is written aside, synced
and renamed, after the files and their folders are on disk.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

from commitlog.advice import Advised
from commitlog.files.system import OS_FILES

NAME = "MANIFEST.json"
STAGING = "_staging"
VERSION = 1
Step = Callable[[str], None]


class ArchiveError(Advised):
    """The archive cannot be read, or would not be whole; it is as it was before."""

    advice = "name another archive, or make it again"


@dataclass(frozen=True, slots=True)
class ArchiveFile:
    """One Parquet file. `ranges`: runs of queue offsets in it, ends included; usually one."""

    path: str
    topic: str
    date: str
    queue: int
    ranges: tuple[tuple[int, int], ...]
    rows: int
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """All files that count, and from where each queue goes on. `identity`: drawn with the first."""

    generation: int = 0
    files: tuple[ArchiveFile, ...] = field(default=())
    identity: str = ""

    def next_offsets(self) -> dict[tuple[str, int], int]:
        """(topic, queue) → the offset behind the last one that is archived."""
        found: dict[tuple[str, int], int] = {}
        for file in self.files:
            key = file.topic, file.queue
            found[key] = max(found.get(key, 0), file.ranges[-1][1] + 1)
        return found


def read_manifest(root: Path) -> Manifest:
    """Raises ArchiveError when there is one that cannot be read."""
    path = root / NAME
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return Manifest()
    return manifest_of(text, str(path))


def manifest_of(text: bytes, path: str) -> Manifest:
    """Decodes the bytes of the manifest at `path`. Raises ArchiveError when they are none."""
    try:
        found = json.loads(text)
        if found["version"] != VERSION:
            raise ArchiveError(
                f"{path} is of version {found['version']}; read it with the release that wrote it, "
                f"this is {VERSION}"
            )
        files = tuple(_file(row) for row in found["files"])
        return Manifest(found["generation"], files, found["identity"])
    except (ValueError, KeyError, TypeError) as error:
        raise ArchiveError(f"{path} cannot be read: {error}; restore it from a copy") from error


def _file(row: dict[str, Any]) -> ArchiveFile:
    ranges = tuple((int(first), int(last)) for first, last in row["ranges"])
    return ArchiveFile(**{**row, "ranges": ranges})


def contiguous(files: Iterable[ArchiveFile]) -> None:
    """Every queue's offsets follow each other, none twice, none missing. Raises ArchiveError."""
    runs: dict[tuple[str, int], list[tuple[int, int, str]]] = defaultdict(list)
    for file in files:
        if sum(last - first + 1 for first, last in file.ranges) != file.rows:
            raise ArchiveError(f"{file.path} has {file.rows} rows, its offsets are {file.ranges}")
        runs[file.topic, file.queue] += [(first, last, file.path) for first, last in file.ranges]
    for (topic, queue), found in runs.items():
        found.sort()
        for (_, before, path), (first, _, following) in pairwise(found):
            if first != before + 1:
                what = "twice" if first <= before else "missing"
                low, high = sorted((before + 1, first))
                raise ArchiveError(
                    f"{topic} queue {queue}: offsets {low} to {high - 1} are {what}, between "
                    f"{path} and {following}"
                )


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """One job at a time. Raises ArchiveError when another one runs."""
    root.mkdir(parents=True, exist_ok=True)
    try:
        lock = OS_FILES.lock(root / "lock")
    except BlockingIOError:
        raise ArchiveError(f"another job writes to {root}; wait until it has ended") from None
    try:
        yield
    finally:
        lock.release()


def sweep(root: Path, manifest: Manifest) -> int:
    """Removes the remains of killed jobs: staged files, and archive files that the manifest does
    not name. Returns the number of the latter."""
    shutil.rmtree(root / STAGING, ignore_errors=True)
    known = {file.path for file in manifest.files}
    strangers = [
        p for p in root.glob("topic=*/**/*.parquet") if str(p.relative_to(root)) not in known
    ]
    for path in strangers:
        path.unlink()
    return len(strangers)


def place_of(topic: str, date: str, queue: int) -> str:
    """Folder of a file, below the root."""
    return f"topic={quote(topic, safe='')}/date={date}/queue={queue}"


def commit(
    root: Path, before: Manifest, staged: Iterable[ArchiveFile], step: Step = lambda _: None
) -> Manifest:
    """Move staged files into place and name them; all of them, or none.

    `staged`: their `path` is below the root. `step` is called before each thing that a crash may
    come between. Raises ArchiveError when a queue would not be whole.
    """
    new = list(staged)
    contiguous([*before.files, *new])
    moved = []
    for file in new:
        target = f"{place_of(file.topic, file.date, file.queue)}/{Path(file.path).name}"
        step(f"move {target}")
        (root / target).parent.mkdir(parents=True, exist_ok=True)
        os.replace(root / file.path, root / target)
        moved.append(ArchiveFile(**{**_row(file), "path": target}))
    step("sync folders")
    _sync_folders(root, {(root / file.path).parent for file in moved})
    identity = before.identity or uuid.uuid4().hex
    after = Manifest(before.generation + 1, (*before.files, *moved), identity)
    aside = root / f"{NAME}.new"
    step("write manifest")
    _write_synced(aside, after)
    step("rename manifest")
    os.replace(aside, root / NAME)
    step("sync root")
    _sync_folder(root)
    return after


def _row(file: ArchiveFile) -> dict[str, Any]:
    return asdict(file)


def _write_synced(path: Path, manifest: Manifest) -> None:
    bean = {
        "version": VERSION,
        "identity": manifest.identity,
        "generation": manifest.generation,
        "files": [_row(file) for file in manifest.files],
    }
    with path.open("w", encoding="utf-8") as out:
        json.dump(bean, out, indent=0)
        out.flush()
        os.fsync(out.fileno())


def _sync_folders(root: Path, folders: set[Path]) -> None:
    for folder in sorted({p for f in folders for p in (f, *f.parents) if root in (p, *p.parents)}):
        _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
