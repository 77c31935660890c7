"""Where long runs leave their evidence: a folder outside the checkout.

    $DLEDGER_EVIDENCE                              the folder that the user names, else
    $XDG_STATE_HOME/dledger/evidence               the user's state folder, which is
    ~/.local/state/dledger/evidence                this one unless XDG_STATE_HOME says otherwise

An option of a command takes a file of the user's own or, without a value, a file with a fixed name
in that folder. What a person should read of it goes by hand into docs/evidence.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

VARIABLE = "DLEDGER_EVIDENCE"
#: What `--counts` without a file stands for until the command runs; no path holds this character.
_UNNAMED = "\0"


def evidence_folder() -> Path:
    """The folder for evidence of long runs; it need not exist yet."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "dledger" / "evidence"


def evidence_file(name: str) -> Path:
    """A file of the evidence folder."""
    return evidence_folder() / name


def write_evidence(path: Path, text: str) -> None:
    """Write a page of evidence; folders that are missing are made. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def evidence_option(flag: str, name: str, help: str) -> Callable[[Any], Any]:
    """A click option `flag [FILE]`: None without the flag, the evidence folder's `name` without
    FILE. `help` describes the file; its default place is added."""
    return click.option(
        flag,
        is_flag=False,
        flag_value=_UNNAMED,
        type=_EvidenceFile(name),
        help=f"{help} {where_by_default(name)}",
    )


def where_by_default(name: str) -> str:
    """The sentence of a help text that says where `name` is when the user names no file."""
    return (
        f"Without FILE: {name} in the folder ${VARIABLE}, or in dledger/evidence of the user's "
        "state folder (~/.local/state)."
    )


class _EvidenceFile(click.ParamType[Path]):
    """A path, or the default file."""

    name = "file"

    def __init__(self, file: str) -> None:
        self._file = file

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "[FILE]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        return evidence_file(self._file) if value == _UNNAMED else Path(value)
