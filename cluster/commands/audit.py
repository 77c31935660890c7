"""`dledger audit`: prints the log of changes and refused requests, with accounts and addresses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

import click

from cluster.client import Client
from cluster.client.admin.audit import ROWS_MAX, NewestEntries, audit_page, newest_entries
from cluster.commands.connecting import Reach, address_option, connected
from cluster.commands.moments import EXAMPLES, moment, time_of
from cluster.commands.output import emit, output_option, table, to_json
from cluster.commands.watching import WATCH_SECONDS, passing
from cluster.core.audit.entry import OUTCOMES
from cluster.errors import ClusterError

COLUMNS = ("at", "account", "verb", "target", "outcome", "via", "address")
_SEVERAL = ("broker", *COLUMNS)


@click.command("audit")
@click.option(
    *("-n", "--count"),
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    help="Show at most so many entries, the newest ones.",
)
@click.option("--since", callback=moment, help=f"Only entries of this time or later: {EXAMPLES}.")
@click.option("--by", help="Only entries of this account (access key).")
@click.option("--target", help="Only entries with this text in the target, as `topic orders`.")
@click.option("--outcome", type=click.Choice(OUTCOMES), help="Only entries with this outcome.")
@click.option("-f", "--follow", is_flag=True, help="Also show new entries, until Ctrl-C.")
@address_option
@output_option
def audit(
    count: int,
    since: int | None,
    by: str | None,
    target: str | None,
    outcome: str | None,
    follow: bool,
    address: Reach,
    output: str,
) -> None:
    """Show changes and refused requests with account, time and address; the newest come last.

    If the cluster has accounts, use an administrator's. -o json also shows the parameters, the
    reason of a refusal, and a command that makes the same change.
    """
    filters = {"since_ms": since, "account": by, "target": target, "outcome": outcome}
    asyncio.run(_show(count, filters, follow, address, output))


async def _show(
    count: int, filters: dict[str, Any], follow: bool, address: Reach, output: str
) -> None:
    async with connected(address) as client:
        found = await newest_entries(client.instance, count, **filters)
        for sentence in _said(found):
            click.echo(sentence, err=True)
        rows = [_shown(row) for row in reversed(found.rows)]
        columns = _SEVERAL if len(found.names) > 1 else COLUMNS
        if not follow:
            emit(rows, output, columns)
            return
        emit(rows, "jsonl" if output == "json" else output, columns)
        last = dict.fromkeys(found.names, -1)
        for row in rows:
            last[row["broker"]] = max(last[row["broker"]], row["number"])
        async with aclosing(_coming(client, last, filters)) as coming:
            async for row in coming:
                _print(_shown(row), output, columns)


def _said(found: NewestEntries) -> Iterator[str]:
    """A sentence for each broker with an incomplete list."""
    for name, why in found.left_out.items():
        yield f"{name} is left out: {why}"
    for name, count in found.damaged.items():
        yield (
            f"{count} entries of {name} are left out: they are damaged on its leader's disk; run "
            "dledger doctor, or move the lead to a node that has them whole"
        )


async def _coming(
    client: Client, last: dict[str, int], filters: dict[str, Any]
) -> AsyncGenerator[dict[str, Any]]:
    """Yield new entries as they are written, also after the lead has moved to another node."""
    while True:  # until Ctrl-C
        await asyncio.sleep(WATCH_SECONDS)
        for broker, after in last.items():
            try:
                page = await audit_page(
                    client.instance, broker, count=ROWS_MAX, after=after, **filters
                )
            except ClusterError as error:
                click.echo(passing(error), err=True)
                continue
            for row in page.rows:
                yield row
            seen = [page.following or after, *(row["number"] for row in page.rows)]
            last[broker] = max(seen)


def _print(row: dict[str, Any], output: str, columns: tuple[str, ...]) -> None:
    if output == "table":
        _, line = table([row], columns).splitlines()
        click.echo(line)
    else:
        click.echo(to_json(row))


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {"at": time_of(row["at_ms"]), **row}
