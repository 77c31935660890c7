"""`dledger verify`, `dledger scrub`: check that the disks hold the log as it was written."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from cluster.client.admin.replica_comparison import Comparison
from cluster.commands.connecting import (
    Reach,
    address_option,
    broker_option,
    connected,
    the_broker,
)
from cluster.commands.folders import compared
from cluster.commands.output import emit, output_option
from cluster.commands.progress import Done, progress
from dledger.runtime.folder_check import Start

VERIFY_COLUMNS = ("replica", "verified_to", "damaged_at", "reason")
SCRUB_COLUMNS = ("node", "state", "passes", "found", "restored_entries", "damaged", "refused")
DAMAGED = 1  # exit code
POLL_SECONDS = 0.5


@click.command()
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path))
@broker_option
@address_option
@output_option
def verify(folders: tuple[Path, ...], broker: str | None, address: Reach, output: str) -> None:
    """Compare the replicas of a running group by their rolling checksum; changes no file.

    Every replica reads its log from the disk. Exit code 1: one is damaged, or they differ.

    FOLDERS: of stopped embedded nodes, or of a Host with all its groups; read here, no cluster is
    asked.
    """
    if folders:
        sys.exit(_verify_folders(folders, output))

    async def work() -> Comparison:
        async with connected(address) as client:
            return await client.admin().verify(await the_broker(client, broker))

    with progress("the replicas read their logs"):
        found = asyncio.run(work())
    emit([_row(found, replica) for replica in sorted(found.whole)], output, VERIFY_COLUMNS)
    if output == "table":
        click.echo(f"\n{_sentence(found)}")
    sys.exit(0 if found.agree else DAMAGED)


def _verify_folders(folders: tuple[Path, ...], output: str) -> int:
    rows = compared(folders)
    emit(rows, output, ("group", *VERIFY_COLUMNS))
    wrong = [row for row in rows if row["reason"]]
    if output == "table":
        click.echo("\n" + "\n".join(_advice(rows)))
    return DAMAGED if wrong else 0


def _advice(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A sentence for each kind of fault, with one thing to try."""
    if not any(row["reason"] for row in rows):
        yield "all are whole, and the same as far as each knows them to be committed"
    if any("not judged" in row["reason"] for row in rows):
        yield "a later release wrote some of it; verify it with the dledger of that release"
    kinds = {
        kind: [row for row in rows if row["lost"] and row["start"] == kind] for kind in _STARTS
    }
    for kind, found in kinds.items():
        if found:
            yield f"{_named(found)}: {kind}; {_STARTS[kind]}"
    damaged = [row for row in rows if row["damaged_at"] is not None or row["states_damaged"]]
    if lone := [row for row in damaged if row["only_voter"]]:
        yield f"{_named(lone)}: no other member has what is damaged; restore it from a backup"
    if [row for row in damaged if not row["only_voter"] and row["start"] != Start.REFUSED.value]:
        yield "start the nodes together: they repair themselves from their peers"


#: What a start comes to → one thing to try, the same as the reasons say.
_STARTS = {
    Start.REFUSED.value: "do what its reason says first",
    Start.ANEW.value: "start it, then have its group readmit it",
    Start.AS_BEFORE.value: "start it, and it makes the file anew",
}


def _named(rows: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(str(row["folder"]) for row in rows)


def _row(found: Comparison, replica: str) -> dict[str, Any]:
    at, reason = found.damaged.get(replica, (None, ""))
    if replica in found.odd:
        at, reason = found.differ_at, "another entry than the other replicas have"
    return {
        "replica": replica,
        "verified_to": found.whole[replica],
        "damaged_at": at,
        "reason": reason,
    }


def _sentence(found: Comparison) -> str:
    if found.last < found.first:
        return "there is nothing to compare yet"
    if found.agree:
        return f"entries {found.first} to {found.last} are whole and the same on every replica"
    first = min([at for at, _ in found.damaged.values()] + [found.differ_at] * bool(found.odd))
    return (
        f"the first entry that is not the same everywhere is {first}; replicas repair themselves "
        "from their peers: `dledger scrub --wait`, then verify again"
    )


@click.command()
@click.argument("node", required=False)
@click.option("--wait", is_flag=True, help="Return when the pass has seen the whole log.")
@broker_option
@address_option
@output_option
def scrub(node: str | None, wait: bool, broker: str | None, address: Reach, output: str) -> None:
    """Have replicas (NODE: one, by id or client address) read their logs for damage now.

    Damage that is found is repaired from peers at once. Exit code 1: something is damaged still.
    """

    async def work(told: Done) -> list[dict[str, Any]]:
        async with connected(address) as client:
            admin, name = client.admin(), await the_broker(client, broker)
            states = await admin.scrub(name, node, start=True)
            while wait and any(map(_is_busy, states)):
                told(_percent(states))
                await asyncio.sleep(POLL_SECONDS)
                states = await admin.scrub(name, node, start=False)
            return states

    with progress("percent of the logs read:", 100) as told:
        states = asyncio.run(work(told))
    rows = states if output != "table" else [_scrub_row(state) for state in states]
    emit(rows, output, SCRUB_COLUMNS)
    sys.exit(DAMAGED if any(state["damaged"] for state in states) else 0)


def _is_busy(state: dict[str, Any]) -> bool:
    """A pass is under way, or damage is that may still be undone."""
    return bool(state["scrubbing"]) or len(state["damaged"]) > len(state["refused"])


def _percent(states: Sequence[Mapping[str, Any]]) -> int:
    """How far the pass of the slowest replica is; one that is not busy has read all."""
    return min(int(100 * (one["pass_share"] if one["scrubbing"] else 1)) for one in states)


def _scrub_row(state: dict[str, Any]) -> dict[str, Any]:
    share = f"at {state['pass_share']:.0%}" if state["scrubbing"] else "idle"
    ranges = {
        key: [f"{damage['first']}..{damage['last']}" for damage in state[key]] or None
        for key in ("damaged", "refused")
    }
    return {**state, "state": share, **ranges}
