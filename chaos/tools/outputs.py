"""Where a command is going to write, looked at before anything starts.

A run of two hours must not end with "is a directory". What is tried here is taken back: a command
that is refused for another reason, or finds nothing to write, leaves no folder.

    folder of a run    not there, or empty; one that holds anything is never written over, a run
                       of ours included: two runs in one folder are evidence of neither
    file               not there, or a file that can be written
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click


def check_folder(path: Path | None) -> None:
    """Raises click.UsageError when a run cannot have this folder for itself."""
    if path is None:
        return
    with _sentences(path, "name another folder"):
        if path.exists() and any(path.iterdir()):
            holds = "holds a run already" if (path / "env.json").exists() else "is not empty"
            raise click.UsageError(f"{path} {holds}; name a folder that is empty, or a new one")
        _try_folder(path)


def check_file(path: Path | None) -> None:
    """Raises click.UsageError when this file cannot be written, or made."""
    if path is None:
        return
    with _sentences(path, "name another file"):
        if path.exists():
            path.open("ab").close()
        else:
            _try_folder(path.parent)


def _try_folder(path: Path) -> None:
    """Make it, a file in it, and take both away again. Raises OSError."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    made: list[Path] = []
    try:
        for one in reversed(missing):
            one.mkdir()
            made.append(one)
        tempfile.TemporaryFile(dir=path).close()
    finally:
        for one in reversed(made):
            one.rmdir()


@contextmanager
def _sentences(path: Path, advice: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise click.UsageError(f"{path} cannot be written: {error.strerror}; {advice}") from error
