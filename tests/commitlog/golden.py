"""Where the golden stores are, and how to work on a copy."""

from __future__ import annotations

import shutil
from pathlib import Path

from commitlog.config import StoreConfig
from commitlog.index.index_format import IndexGeometry

GOLDEN = Path(__file__).parent.parent / "data" / "golden"
JAVA = GOLDEN / "java-store"
BROKER = GOLDEN / "dledger" / "dledger-broker"
PLAIN_CASES = [
    *(GOLDEN / "dledger" / "dledger-plain" / name for name in ("tiny", "single", "killed")),
    *(GOLDEN / "dledger" / "dledger-3" / name for name in ("n0", "n1", "n2")),
]

SMALL_GEOMETRY = IndexGeometry(64, 40)
SMALL = StoreConfig(
    commit_log_file_size=16_384,
    consume_queue_file_size=400,
    batch_queue_file_size=460,
    index_slots=64,
    index_entries=40,
    body_size_max=12_288,
)
JAVA_END = 40_469


def copy(source: Path, target: Path) -> Path:
    """A writable copy of a store."""
    shutil.copytree(source, target)
    return target


def rows(path: Path) -> list[dict[str, str]]:
    """A TSV with a header."""
    lines = path.read_text(encoding="utf-8").splitlines()
    names = lines[0].split("\t")
    return [dict(zip(names, line.split("\t"), strict=True)) for line in lines[1:]]


def facts(path: Path) -> dict[str, str]:
    """A TSV of key and value, without a header."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return dict(line.split("\t", 1) for line in lines)


def derived_tree(root: Path) -> dict[str, bytes]:
    """Relative path → content of every queue file."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for kind in ("consumequeue", "batchconsumequeue", "consumequeue_ext")
        for path in (root / kind).rglob("*")
        if path.is_file()
    }


def index_contents(root: Path) -> list[bytes]:
    """Content of every index file, oldest first; their names are creation times."""
    return [path.read_bytes() for path in sorted((root / "index").iterdir())]
