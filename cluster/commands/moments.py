"""Times as people type them."""

from __future__ import annotations

from datetime import UTC, datetime

import click

EXAMPLES = "2026-01-31T12:00:00 (local) or 2026-01-31T12:00:00+00:00"


def moment_ms(text: str) -> int:
    """A time as ISO 8601 has it, in ms since 1970. Raises ValueError."""
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def moment(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    """Callback of an option for a time; None where it is not given."""
    if value is None:
        return None
    try:
        return moment_ms(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is no time like {EXAMPLES}") from None


def time_of(at_ms: int | None) -> str | None:
    """A time for people, in UTC; None stays None."""
    if at_ms is None:
        return None
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
