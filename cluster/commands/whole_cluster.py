"""`dledger cluster health|top|watch`: health, rates and events of all nodes."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import click

from cluster.client import Client
from cluster.client.admin.topic_rates import topic_rates
from cluster.commands.connecting import Reach, address_option, connected
from cluster.commands.errors import FAILED, CommandError
from cluster.commands.margin import margin_sentence
from cluster.commands.moments import time_of
from cluster.commands.output import emit, format_option, output_option, to_json
from cluster.commands.registry import WholeHelpGroup
from cluster.commands.topics import is_internal
from cluster.commands.watching import passing
from cluster.errors import ClusterError
from cluster.health.alerts import (
    CRITICAL,
    Row,
    alert_text,
    alerts,
    behind_leader,
    leader_of,
)
from cluster.health.members import reports

Function = TypeVar("Function", bound=Callable[..., Any])

TOPICS_MAX = 200
"""Topics whose rates are asked for: one request each."""
SECONDS_DEFAULT = 2.0


def _seconds_option(least: float) -> Callable[[Function], Function]:
    return click.option(
        *("-s", "--seconds"),
        type=click.FloatRange(least, 3600),
        default=SECONDS_DEFAULT,
        show_default=True,
        help="Between two looks.",
    )


@click.group(cls=WholeHelpGroup)
def cluster() -> None:
    """All nodes at once: their health, rates and events."""


@cluster.command("health")
@address_option
@format_option("text", "json", "jsonl")
def health(address: Reach, output: str) -> None:
    """Leader and margin of each group, and every alert; exit code 1 when one is critical.

    `dledger doctor` looks at this machine, too.
    """
    groups, found = asyncio.run(_health(address))
    if output == "text":
        for row in groups:
            click.echo(_sentence(row))
        for one in found:
            click.echo(alert_text(one))
        if not found:
            click.echo("no alert")
    elif output == "json":
        emit([{"groups": groups, "alerts": found}], output)
    else:
        emit([*groups, *found], output)
    sys.exit(FAILED if any(one["level"] == CRITICAL for one in found) else 0)


async def _health(address: Reach) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    async with connected(address) as client:
        replicas, members = await reports(client.admin())
    rows = [_group_row(name, replicas, found) for name, found in members.items()]
    return rows, list(alerts(replicas, members))


def _group_row(name: str, replicas: Sequence[Row], members: Row) -> dict[str, Any]:
    leader = leader_of(name, replicas)
    own = [row for row in replicas if row["group"] == name]
    return {
        "group": name,
        "leader": None if leader is None else str(leader["node"]),
        "term": None if leader is None else int(leader["term"]),
        "nodes": len(own),
        "answering": sum(bool(row["up"]) for row in own),
        "may_fail_now": members.get("may_fail_now"),
        "margin": dict(members) if members else None,
    }


def _sentence(row: Mapping[str, Any]) -> str:
    nodes = f"{row['answering']} of {row['nodes']} nodes answer"
    if row["leader"] is None:
        return f"{row['group']}: no leader; {nodes}"
    margin = f"; {margin_sentence(row['margin'])}" if row["margin"] else ""
    return f"{row['group']}: {row['leader']} leads in term {row['term']}; {nodes}{margin}"


@cluster.command("top")
@click.option("-n", "--times", type=click.IntRange(1), help="End after so many looks.")
@_seconds_option(0.5)
@address_option
@output_option
def top(times: int | None, seconds: float, address: Reach, output: str) -> None:
    """Messages a second of each node and topic, over the last minute, the busiest first.

    Again and again until Ctrl-C; once where the output is no terminal.
    """
    times = times or (None if sys.stdout.isatty() else 1)
    asyncio.run(_top(times, seconds, address, output))


async def _top(times: int | None, seconds: float, address: Reach, output: str) -> None:
    looks = 0
    async with connected(address) as client:
        while True:  # ends after `times` looks, else by Ctrl-C
            try:
                nodes, topics = await _rates(client)
            except ClusterError as error:
                if looks == 0:
                    raise
                click.echo(passing(error), err=True)
                await asyncio.sleep(seconds)
                continue
            if output == "table":
                if times != 1:
                    click.clear()
                columns = ("node", "group", "role", "in_per_second", "out_per_second")
                emit(nodes, output, (*columns, "lag", "disk_used_ratio"))
                click.echo()
                emit(topics, output, ("topic", "in_per_second"))
            elif output == "json":
                emit([{"nodes": nodes, "topics": topics}], output)
            else:
                emit([*nodes, *topics], output)
            looks += 1
            if looks == times:
                return
            await asyncio.sleep(seconds)


async def _rates(client: Client) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    admin = client.admin()
    replicas = await admin.replicas()
    nodes = [
        {
            "node": str(row["node"]),
            "group": str(row["group"]),
            "role": str(row["role"]),
            "in_per_second": row.get("messages_in_per_second"),
            "out_per_second": row.get("messages_out_per_second"),
            "lag": behind_leader(row, leader_of(str(row["group"]), replicas)),
            "disk_used_ratio": row.get("disk_used_ratio"),
        }
        for row in replicas
    ]
    brokers = (await admin.status()).brokers
    names = [name for name in await admin.list_topics() if not is_internal(name, brokers)]
    rates = await topic_rates(client.instance, sorted(names)[:TOPICS_MAX])
    rows = [{"topic": name, "in_per_second": rate} for name, rate in rates.items()]
    return nodes, sorted(rows, key=lambda row: (-float(str(row["in_per_second"])), row["topic"]))


@cluster.command("watch")
@click.option("-n", "--count", type=click.IntRange(1), help="End after so many events.")
@_seconds_option(0.1)
@address_option
@format_option("text", "jsonl")
def watch(count: int | None, seconds: float, address: Reach, output: str) -> None:
    """Print a line for each event: a new leader, a node that goes or comes, an alert.

    Until Ctrl-C. The first lines say how the cluster is. What comes and goes between two looks is
    not seen.
    """
    asyncio.run(_watch(count, seconds, address, output))


async def _watch(count: int | None, seconds: float, address: Reach, output: str) -> None:
    seen: State | None = None
    told = 0
    while True:  # ends after `count` events, else by Ctrl-C
        state = await _state(address)
        for event in events(seen, state):
            row = {"time": time_of(int(time.time() * 1000)), **event}
            line = f"{row['time']} {row['subject']}: {row['event']}"
            click.echo(line if output == "text" else to_json(row))
            told += 1
            if told == count:
                return
        seen = state if state[_ITSELF] == _ANSWERS else {**(seen or {}), **state}
        await asyncio.sleep(seconds)


@cluster.command("leads")
@address_option
@output_option
def leads(address: Reach, output: str) -> None:
    """List the nodes that led each broker name, from which to which, and why, the newest last.

    Nodes keep the last 200, also over restarts.
    """
    rows = asyncio.run(_leads(address))
    emit(rows, output, ("time", "group", "term", "from", "to", "why"))


async def _leads(address: Reach) -> list[dict[str, Any]]:
    async with connected(address) as client:
        found = await client.admin().lead_moves()
    for one in found:
        for node in one.left_out:
            click.echo(
                f"{one.group}: {node} is left out, it does not answer or is of an older release",
                err=True,
            )
    return [
        {
            "time": time_of(row["at_ms"]),
            "group": one.group,
            "term": row["term"],
            "from": row["before"],
            "to": row["leader"],
            "why": row["why"],
        }
        for one in found
        for row in one.rows
    ]


State = dict[tuple[str, str], tuple[str, str]]
"""What is watched: (kind, subject) → what is compared, and its sentence."""
_ITSELF, _ANSWERS = ("cluster", "cluster"), ("answers", "answers")


async def _state(address: Reach) -> State:
    """A cluster that cannot be reached is a state, too.

    Raises CommandError, ClusterError for what asking again cannot cure.
    """
    try:
        groups, found = await _health(address)
    except (CommandError, ClusterError) as error:
        sentence = passing(error)
        return {_ITSELF: (sentence, sentence)}
    state: State = {_ITSELF: _ANSWERS}
    for row in groups:
        leader = row["leader"]
        words = "no leader" if leader is None else f"{leader} leads in term {row['term']}"
        state["leader", row["group"]] = words, words
    for one in found:
        # Not the sentence, whose figures change from look to look.
        state[one["id"], one["subject"]] = one["level"], f"{one['level']}: {one['message']}"
    return state


def events(before: State | None, now: State) -> Iterator[dict[str, str]]:
    """The changes between two looks, in the order of the later one; ends of alerts come last."""
    old = before or {}
    for (kind, subject), (compared, words) in now.items():
        if old.get((kind, subject), ("", ""))[0] != compared:
            yield {"kind": kind, "subject": subject, "event": words}
    if now.get(_ITSELF) != _ANSWERS:
        return  # what an unreachable cluster does not tell has not ended
    for kind, subject in old:
        if (kind, subject) not in now:
            yield {"kind": kind, "subject": subject, "event": f"no longer: {kind}"}
