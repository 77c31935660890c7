"""Rows for people (`table`) or programs (`json`: one value, `jsonl`: one object per line)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from enum import Enum
from typing import Any, TypeVar

import click

Row = Mapping[str, Any]
Function = TypeVar("Function", bound=Callable[..., Any])


def format_option(*formats: str) -> Callable[[Function], Function]:
    """`-o`, one of `formats`, as the argument `output`; the first is the default."""
    return click.option(
        *("-o", "--output"),
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="How to print.",
    )


output_option = format_option("table", "json", "jsonl")
report_option = format_option("text", "json")


def to_json(value: Any) -> str:
    """Compact JSON text; dataclasses, paths and enums as one expects."""
    import orjson

    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except orjson.JSONEncodeError:  # the name of a file that is no UTF-8
        return json.dumps(value, default=_as_orjson, separators=(",", ":"))


def _as_orjson(value: Any) -> Any:
    """A value that `json` does not know, as the other library has it."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return value.value if isinstance(value, Enum) else str(value)


def emit(rows: Sequence[Row], output: str, columns: Sequence[str] = ()) -> None:
    """Print rows; `columns` chooses and orders the columns of the table (JSON has all)."""
    if output == "json":
        click.echo(to_json(rows))
    elif output == "jsonl":
        emit_lines(rows)
    else:
        click.echo(table(rows, columns), nl=False)


def emit_done(rows: Sequence[Row], output: str, *sentences: str) -> None:
    """Print the result of a command: sentences for people, `rows` for programs."""
    if output != "table":
        emit(rows, output)
        return
    for sentence in sentences:
        click.echo(sentence)


def emit_lines(rows: Iterable[Row]) -> None:
    """Print one JSON object a line."""
    for row in rows:
        click.echo(to_json(row))


def cell(value: Any) -> str:
    """A value as text of a table: "-" for None, three decimals at most, parts of a list by
    blanks.
    """
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    if isinstance(value, list | tuple):
        return " ".join(cell(part) for part in value)
    return str(value)


def table(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """Aligned columns, numbers to the right; plain text, so that it can be piped and compared."""
    columns = columns or (list(rows[0]) if rows else [])
    lines = [[name.upper().replace("_", " ") for name in columns]]
    lines += [[cell(row.get(name)) for name in columns] for row in rows]
    widths = [max(len(line[n]) for line in lines) for n in range(len(columns))]
    right = [bool(rows) and all(_is_number(row.get(name)) for row in rows) for name in columns]
    text = ""
    for line in lines:
        cells = (
            part.rjust(width) if to_right else part.ljust(width)
            for part, width, to_right in zip(line, widths, right, strict=True)
        )
        text += "  ".join(cells).rstrip() + "\n"
    return text


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
