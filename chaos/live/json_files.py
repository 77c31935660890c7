"""JSON files of a run's folder: written whole or not at all; an error in one names the file, the
line and the field.

history.jsonl, line 7 cannot be read: offset is -4 and must be a whole number, -1 or more
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from chaos.strict import parse

_T = TypeVar("_T")


def read_json(path: Path, checked: Callable[[Any], None] = lambda _: None) -> dict[str, Any]:
    """An object; `checked` raises ValueError for a wrong one.

    Raises OSError, ValueError with the file's name, and the line where it is not JSON.
    """
    data = path.read_bytes()
    try:
        found = parse(data.decode())
    except json.JSONDecodeError as error:
        said = f"{path.name}, line {error.lineno} cannot be read: {error.msg}"
        raise ValueError(said) from error
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path.name}, line {line} cannot be read: it is no text") from error
    except ValueError as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path.name}, line 1 cannot be read: it is no object")
    try:
        checked(found)
    except ValueError as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from error
    return found


def read_rows(path: Path, of_line: Callable[[str], _T], *, torn: bool = False) -> list[_T]:
    """A value of each line that is not empty; `torn`: the last may be cut, where a run died.

    Raises OSError, ValueError with the file's name and the line's number.
    """
    *lines, rest = path.read_bytes().split(b"\n")
    if rest and not torn:
        raise ValueError(f"{path.name}, line {len(lines) + 1} cannot be read: it is cut")
    found = []
    for number, line in enumerate(lines, 1):
        try:
            if line.strip():
                found.append(of_line(line.decode()))
        except UnicodeDecodeError as error:
            said = f"{path.name}, line {number} cannot be read: it is no text"
            raise ValueError(said) from error
        except ValueError as error:
            raise ValueError(f"{path.name}, line {number} cannot be read: {error}") from error
    return found


def write_json(path: Path, value: object) -> None:
    """Some lines of it."""
    write_lines(path, [json.dumps(value, indent=1)])


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Replaces the file at `path` by `lines` in one step; before, it may hold the streamed rows of
    a history, of faults or of nodes."""
    unfinished = path.with_suffix(".tmp")
    with unfinished.open("w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)
    unfinished.replace(path)
