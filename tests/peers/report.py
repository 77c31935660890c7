"""What a run of `scripts/bench messages` says: tables, a drawing, the part of a page."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from cluster.commands.errors import CommandError
from tests.peers import bars
from tests.peers.bars import BROKEN, CONSUME, IDLE, SEND, START, Judged, Key, cells, judged

BEGIN = "<!-- scripts/bench messages: begin -->"
END = "<!-- scripts/bench messages: end -->"
NOT_RECORDED = "not recorded"
LIMITS = {
    "append_p50_ms": "append 4 KiB + fdatasync, p50 ms",
    "append_p99_ms": "the same, p99 ms",
    "rewrite_bytes_per_second": "overwriting in three files, bytes/s of each",
    "loopback_p50_ms": "round trip of 1 KiB over loopback, p50 ms",
    "floor_ms": "floor of one message in flight, ms",
    "memcpy_gb_per_second": "memcpy, GB/s",
    "crc_gb_per_second": "CRC-32, GB/s",
    "crc_us_per_kib": "CRC-32 of one KiB, µs",
}
ROW, LABEL, WIDTH, BAR_AREA = 20, 330, 980, 500
COLOURS = {True: "#2f6f9f", False: "#9aa5ae"}  # ours, another


def limits_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[float, float, float]]:
    """Of each physical limit: the smallest, the median, the largest of the run's turns."""
    found = [row for row in rows if row["kind"] == bars.LIMITS]
    return {
        name: (min(some), statistics.median(some), max(some))
        for name in LIMITS
        if (some := [float(row[name]) for row in found])
    }


def judgement(rows: Sequence[Mapping[str, Any]]) -> list[Judged]:
    """The bars of a run; a physical limit is that of the turns of ours."""
    ours = [row for row in rows if row["subject"] == bars.OURS]
    return judged(_figures(rows), {name: some[1] for name, some in limits_of(ours).items()})


def is_met(rows: Sequence[Mapping[str, Any]]) -> bool:
    """True if every bar is met by figures that can be trusted, and no turn broke off."""
    met = all(one.met and not one.disturbed and not one.failed for one in judgement(rows))
    return met and not _broken(rows)


def _figures(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["kind"] not in (bars.LIMITS, BROKEN)]


def _broken(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["kind"] == BROKEN]


def recorded(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    """The `date` or `python` that rows were measured on, the first and the last of several."""
    found = sorted({row[name] for row in rows if row["kind"] == bars.LIMITS and name in row})
    return " to ".join(found[:1] + found[1:][-1:]) or NOT_RECORDED


def text(rows: Sequence[Mapping[str, Any]], durability: Mapping[str, str]) -> str:
    """Markdown tables: sends, reads, start and idle, ratios, limits; what broke off."""
    found = cells(_figures(rows))
    parts = [
        _sends(found),
        _reads(found),
        _rest(found, durability),
        _ratios(judgement(rows)),
        _physical(rows),
        f"Python: {recorded(rows, 'python')}",
    ]
    if any(map(_mark, found.values())):
        parts.append("!: other programs disturbed every turn of it, or sends failed.")
    parts += [
        f"{row['subject']} broke off in round {row['round'] + 1}: {row['why']}"
        for row in _broken(rows)
    ]
    return "\n\n".join(parts)


def _table(head: str, lines: Sequence[str]) -> str:
    return "\n".join([head, "|" + "---|" * (head.count("|") - 1), *lines])


def _mark(figures: Mapping[str, float]) -> str:
    return " !" if figures["disturbed"] or figures["failed"] else ""


def _sends(found: Mapping[Key, Mapping[str, float]]) -> str:
    lines = [
        f"| {key.subject} | {key.mode} | {key.window:,} | {key.body_size:,} "
        f"| {one['messages_per_second']:,.0f}{_mark(one)} | {one['failed']:,.0f} "
        f"| {one['p50_ms']:.2f} "
        f"| {one['p99_ms']:.2f} | {one['server_cpu_us']:.1f} | {one['client_cpu_us']:.1f} "
        f"| {one['others_share']:.0%} |"
        for key, one in found.items()
        if key.kind == SEND
    ]
    head = (
        "| send | mode | in flight | bytes | messages/s | failed | p50 ms | p99 ms "
        "| CPU µs a message: servers | client | others' CPU |"
    )
    return _table(head, lines)


def _reads(found: Mapping[Key, Mapping[str, float]]) -> str:
    lines = [
        f"| {key.subject} | {key.mode} | {one['messages_per_second']:,.0f}{_mark(one)} "
        f"| {one['server_cpu_us']:.1f} | {one['client_cpu_us']:.1f} | {one['others_share']:.0%} |"
        for key, one in found.items()
        if key.kind == CONSUME
    ]
    head = "| read from the start | mode | messages/s | CPU µs: servers | client | others' CPU |"
    return _table(head, lines)


def _rest(found: Mapping[Key, Mapping[str, float]], durability: Mapping[str, str]) -> str:
    lines = []
    for key, start in found.items():
        if key.kind == START:
            idle = found.get(Key(key.subject, IDLE))
            memory, cores = (
                (f"{idle['resident_mb']:.0f}", f"{idle['idle_cores']:.3f}{_mark(idle)}")
                if idle
                else ("", "")
            )
            kept = durability.get(key.subject, "")
            lines.append(
                f"| {key.subject} | {kept} | {start['seconds']:.1f} | {memory} | {cores} |"
            )
    head = "| subject | an acknowledged message is | cold start s | MB a node | idle cores |"
    return _table(head, lines)


def _ratios(judged_bars: Sequence[Judged]) -> str:
    lines = []
    for bar, ratio, met, disturbed, failed in judged_bars:
        goal = f"≥ {bar.at_least:g}" if bar.at_least is not None else f"≤ {bar.at_most:g}"
        said = "met" if met else "missed"
        mark = " !" if disturbed or failed else ""
        if mark:
            said = "sends failed" if failed else "disturbed"
        lines.append(f"| {bar.what} | {ratio:.3g}{mark} | {goal} | {said} |")
    return _table("| bar | measured | goal | |", lines)


def _physical(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        f"| {LIMITS[name]} | {middle:,.3g} | {least:,.3g} to {most:,.3g} |"
        for name, (least, middle, most) in limits_of(rows).items()
    ]
    return _table("| this machine, before each turn | median | range |", lines)


def svg(rows: Sequence[Mapping[str, Any]], durability: Mapping[str, str]) -> str:
    """Bars of messages a second: a panel for each window and size, one for reading."""
    found = cells(row for row in rows if row["kind"] in (SEND, CONSUME))
    panels: dict[str, list[tuple[str, float, bool]]] = {}
    for key, one in found.items():
        if key.kind == CONSUME:
            title = "read from the start"
        elif key.mode == "batches":
            title = f"batches of 32, {key.window:,} in flight"
        else:
            title = f"{key.body_size:,} B, {key.window:,} in flight"
        mode = "" if key.mode in ("single", "batches") else f" ({key.mode})"
        is_ours = key.subject.startswith("ours")
        name = f"{key.subject}{mode}{_mark(one)}"
        panels.setdefault(title, []).append((name, one["messages_per_second"], is_ours))
    return _drawn(panels, durability)


def _drawn(
    panels: Mapping[str, Sequence[tuple[str, float, bool]]], durability: Mapping[str, str]
) -> str:
    height = sum(ROW * (len(panel) + 2) for panel in panels.values()) + ROW * (len(durability) + 1)
    root = ElementTree.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {WIDTH} {height}",
            "font-family": "sans-serif",
            "font-size": "13",
        },
    )
    _put(root, "rect", {"width": str(WIDTH), "height": str(height), "fill": "#ffffff"})
    y = ROW
    for title, panel in panels.items():
        _put(root, "text", {"x": "8", "y": str(y), "font-weight": "bold"}, f"messages/s: {title}")
        most = max(rate for _, rate, _ in panel) or 1.0
        for name, rate, is_ours in sorted(panel, key=lambda one: -one[1]):
            y += ROW
            length = max(1.0, BAR_AREA * rate / most)
            _put(root, "text", {"x": str(LABEL - 8), "y": str(y), "text-anchor": "end"}, name)
            place = {"x": str(LABEL), "y": str(y - 12), "width": f"{length:.1f}", "height": "14"}
            _put(root, "rect", {**place, "fill": COLOURS[is_ours]})
            _put(root, "text", {"x": f"{LABEL + length + 6:.1f}", "y": str(y)}, f"{rate:,.0f}")
        y += 2 * ROW
    for name, kept in durability.items():
        _put(root, "text", {"x": "8", "y": str(y), "fill": "#555555"}, f"{name}: {kept}")
        y += ROW
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _put(root: ElementTree.Element, tag: str, given: dict[str, str], said: str = "") -> None:
    ElementTree.SubElement(root, tag, given).text = said or None


def check_page(page: Path) -> tuple[str, str]:
    """What is before and behind the page's markers. Raises CommandError when it has none."""
    try:
        before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    except OSError as error:
        raise CommandError(f"the page cannot be read: {error}; name another one", 2) from None
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise CommandError(f"{page} has no markers; write {BEGIN} and {END} into it", 2)
    return before, after


def into_page(
    page: Path, tables: str, command: str, note: str, drawing: str, date: str = NOT_RECORDED
) -> None:
    """Put the run between the page's markers; `date`: of its turns. Raises CommandError."""
    before, after = check_page(page)
    begin, end = BEGIN, END
    made = f"Measured by `{command.strip()}`; date: {date}."
    parts = [begin, f"**{note}**" if note else "", made, tables]
    if drawing:
        parts.append(f"![Messages a second]({Path(drawing).name})")
    parts.append(end)
    page.write_text(before + "\n\n".join(part for part in parts if part) + after, encoding="utf-8")
