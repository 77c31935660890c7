"""A space-time diagram: a line per node, time to the right, and the messages between the nodes.

    clients  · · · ·       ×  · ·        how appends ended
    n0     ▬▬▬▬▬▬▬▬╲╌╌╌ down ╌╌╌▬▬▬▬     role by tone, a number where a term begins
    n1     ─────────╳▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬     lines: votes, leaders heard of, messages; the dot is the
    n2     ────────╱─╲──────────────     end that received
              ░░fault░░                  shaded where it hit

The nodes' traces (live/node_trace.py) of live and simulated runs give roles, votes, and when each
node first heard of a leader; messages.jsonl of a simulated run gives every message. The diagram of
a whole run shows only a sample of many links; that of a moment shows more of them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from chaos.history import Kind
from chaos.report.drawing import SLIVER_SHARE, Axis, bar, chart, dot, group, link, ruler, text
from chaos.report.figures import Span, merged
from chaos.report.overview import fault_tip, role_tip, sampled, tip
from chaos.report.recorded import Recorded

#: Marks of one diagram: more are slower and show nothing more.
LINKS_MAX, POINTS_MAX = 1200, 600
ROW, TOP = 46.0, 30.0
ROLE_HEIGHT = 8.0
SECONDS_AROUND = 1.5
ROUNDED_SECONDS = 0.001  # of times in nodes.jsonl
FIRST_LABEL_SHARE, LABEL_SHARE = 0.12, 0.025  # width of a label on a phone, as a share of the axis


class Link(NamedTuple):
    """A message, a vote or the first word of a leader; `received` None: it never arrived.

    `said`: the sentence that a pointer over it shows.
    """

    kind: str
    source: str
    target: str
    sent: float
    received: float | None
    said: str


def around(run: Recorded, moment: float) -> str:
    """The diagram of the seconds around a moment; "" for a run without traces."""
    end = min(moment + SECONDS_AROUND, run.seconds)
    return diagram(run, max(0.0, moment - SECONDS_AROUND), max(end, SECONDS_AROUND))


def diagram(run: Recorded, begin: float, end: float) -> str:
    """The diagram from `begin` to `end`, in seconds of the run; "" for a run without traces."""
    if not run.told:
        return ""
    axis = Axis(end, begin)
    y_of = {node: TOP + ROW * (n + 1) for n, node in enumerate(run.nodes)}
    height = TOP + ROW * (len(y_of) + 0.6)
    pieces = [*_faults(run, axis, y_of, height), ruler(axis, 0, height)]
    pieces += _clients(run, axis)
    found = [*of_traces(run.told), *of_messages(run.messages)]
    pieces += [_draw(axis, y_of, one) for one in chosen(found, begin, end)]
    for node, spans in roles(run).items():
        pieces += _node_row(axis, node, spans, y_of[node])
    return chart(height + 20, pieces, "roles, votes, messages and faults of nodes over time")


# -- what is drawn ---------------------------------------------------------------------------------


def roles(run: Recorded) -> dict[str, list[Span]]:
    """Node → its roles and terms, with a gap between two processes of the node.

    A process counts as alive from its first trace line to the last line of it, or of the observer
    about it.
    """
    alive: dict[str, list[float]] = defaultdict(list)
    for row in [*run.told, *run.rows]:
        alive[str(row["node"])].append(float(row["time"]))
    lines: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in run.told:
        lines[str(row["node"])].append(row)
    return {node: _spans(rows, sorted(alive[node])) for node, rows in sorted(lines.items())}


def _spans(rows: Sequence[Mapping[str, Any]], alive: Sequence[float]) -> list[Span]:
    found: list[Span] = []
    for row, after in zip(rows, [*rows[1:], None], strict=True):
        begin, role, term = float(row["time"]), str(row["role"]), int(row["term"])
        end = alive[-1] if after is None else float(after["time"])
        if after is not None and after["boot"] != row["boot"]:
            end = max((at for at in alive if at < end - ROUNDED_SECONDS), default=begin)
            end = max(begin, end)
        last = found[-1] if found else None
        if last is not None and (last.role, last.term, last.end) == (role, term, begin):
            found[-1] = last._replace(end=end)
        else:
            found.append(Span(begin, end, role, term))
    return found


def of_traces(told: Iterable[Mapping[str, Any]]) -> list[Link]:
    """Votes, from candidate to voter; and how each node first heard of the leader of its term."""
    since: dict[tuple[str, str, int], float] = {}  # when a node "voted" for itself, or "led", first
    heard: dict[str, tuple[int, str, str]] = {}  # node → term, vote and leader of its last line
    first: set[tuple[str, int, str]] = set()  # node, term, leader: drawn already
    found = []
    for row in told:
        node, term, at = str(row["node"]), int(row["term"]), float(row["time"])
        vote, leader = str(row["vote"]), str(row["leader"])
        if vote == node:
            since.setdefault((node, "voted", term), at)
        if row["role"] == "leader":
            since.setdefault((node, "led", term), at)
        before = heard.get(node, (-1, "", ""))
        if vote not in ("", node) and (term, vote) != before[:2]:
            sent = min(since.get((vote, "voted", term), at), at)
            found.append(
                Link("vote", vote, node, sent, at, f"{node} votes for {vote}, term {term}")
            )
        if leader not in ("", node) and (node, term, leader) not in first:
            first.add((node, term, leader))
            sent = min(since.get((leader, "led", term), at), at)
            said = f"{node} hears that {leader} leads term {term}"
            found.append(Link("led", leader, node, sent, at, said))
        heard[node] = (term, vote, leader)
    return found


def of_messages(messages: Iterable[Mapping[str, Any]]) -> list[Link]:
    """Every message of a simulated run's record."""
    found = []
    for row in messages:
        name, came = str(row["kind"]), row["received"]
        kind = "vote" if "Vote" in name or name == "TimeoutNow" else "message"
        how = "never arrived as sent" if came is None else f"{(came - row['sent']) * 1e3:.1f} ms"
        said = f"{name} {row['from']} to {row['to']}, term {row['term']}: {how}"
        found.append(Link(kind, row["from"], row["to"], float(row["sent"]), came, said))
    return found


def chosen(found: Iterable[Link], begin: float, end: float) -> list[Link]:
    """The links within the window; of too many an even share, and fewest of plain messages."""
    within = [
        one
        for one in found
        if one.sent <= end and (one.sent if one.received is None else one.received) >= begin
    ]
    first = [one for one in within if one.kind != "message"]
    first = first[:: max(1, math.ceil(len(first) / LINKS_MAX))]
    others = [one for one in within if one.kind == "message"]
    left = LINKS_MAX - len(first)
    others = others[:: max(1, math.ceil(len(others) / left))] if left > 0 else []
    return [*others, *first]


# -- how -------------------------------------------------------------------------------------------


def _node_row(axis: Axis, node: str, spans: Sequence[Span], y: float) -> list[str]:
    pieces, term, free = [], -1, 0.0  # a label left of `free` would cover the one before
    within = [one for one in spans if one.end >= axis.begin and one.begin <= axis.seconds]
    for one in merged(within, 2 * SLIVER_SHARE * axis.length):
        said, kind = role_tip(node, one), f"role role-{one.role}"
        pieces.append(bar(axis, one.begin, one.end, y - ROLE_HEIGHT / 2, ROLE_HEIGHT, kind, said))
        if one.term != term:
            at, first = axis.share(one.begin), term < 0
            if at >= free:
                label = f"{node}  term {one.term}" if first else str(one.term)
                pieces.append(text(axis.at(one.begin), y + 17, label, "term"))
                free = at + (FIRST_LABEL_SHARE if first else LABEL_SHARE)
            term = one.term
    return pieces


def _draw(axis: Axis, y_of: Mapping[str, float], one: Link) -> str:
    if one.source not in y_of or one.target not in y_of:
        return ""
    begin, end = y_of[one.source], y_of[one.target]
    if one.received is None:  # a short line towards its target
        return link(
            axis, (one.sent, begin), (one.sent, begin + (end - begin) / 3), "lost", one.said
        )
    drawn = link(axis, (one.sent, begin), (one.received, end), one.kind, "")
    return group([drawn, dot(axis, one.received, end, f"end-{one.kind}", "")], one.said)


def _clients(run: Recorded, axis: Axis) -> list[str]:
    ops = [
        op
        for op in run.history
        if op.kind is Kind.APPEND and axis.begin <= op.invoked <= axis.seconds
    ]
    pieces = [text("4", 11, "appends of clients, by when they were sent", "kind")]
    for op in sampled(ops, POINTS_MAX) if ops else ():
        pieces.append(dot(axis, op.invoked, TOP - 9, f"op-{op.outcome.value}", tip(op)))
    return pieces


def _faults(run: Recorded, axis: Axis, y_of: Mapping[str, float], height: float) -> list[str]:
    """Shades the rows of the nodes that each fault hit; all rows for a fault that names none."""
    pieces = []
    for row in run.faults:
        if row["began"] is None:
            continue
        began, ended = float(row["began"]), float(row["ended"] or axis.seconds)
        if ended < axis.begin or began > axis.seconds:
            continue
        hit = [node for node in row["nodes"] if node in y_of]
        places = [(y_of[node] - 14, 28.0) for node in hit] or [(TOP, height - TOP)]
        shades = [bar(axis, began, ended, y, tall, "hit", "") for y, tall in places]
        pieces.append(group(shades, fault_tip(row)))
        y = y_of[hit[0]] - 17 if hit else TOP + 10
        if axis.seconds - axis.begin <= 4 * SECONDS_AROUND:
            pieces.append(text(axis.at(max(began, axis.begin)), y, str(row["kind"]), "tick"))
    return pieces
