"""The committed index that a replica has written down for others, as Java's DLedger does.

    <node folder>/checkpoint   committedIndex=<long> \\n endIndex=<long> \\n
                 checkpoint.bak          the one before

A mirror of what the node knows: it may lag, and never runs ahead.
"""

from __future__ import annotations

from pathlib import Path

from commitlog.files.system import FileSystem


def committed_in(text: str) -> int | None:
    """`committedIndex` of a checkpoint's text, None when it has none."""
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if key == "committedIndex" and value.isascii() and value.removeprefix("-").isdigit():
            return int(value)
    return None


def committed_index(files: FileSystem, folder: Path) -> int | None:
    """That of a node folder's checkpoint, or of its .bak; None: neither has one."""
    for name in ("checkpoint", "checkpoint.bak"):
        if not files.exists(folder / name) or files.is_dir(folder / name):
            continue
        found = committed_in(files.read(folder / name).decode("ascii", "replace"))
        if found is not None:
            return found
    return None
