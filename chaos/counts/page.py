"""The page of `dledger chaos counts`: the counts of the present code, against the bars.

Only runs that prove something count towards a bar: seeds of whole 60 s in chunks without a
violation; power cuts and hours of live runs that were valid and lost no message. The tables above
the bars show all runs.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from chaos.counts.code_key import BROKER, LOG, REPLICA
from chaos.counts.ledger import LIVE, SIMULATOR, Row, is_of
from chaos.faults import CHOREOGRAPHIES, KINDS, Driver

SEEDS_BAR = 100_000
SEED_SECONDS = 60.0  # of virtual time; shorter seeds do not count towards the bar
CALM_BAR = 1_000  # seeds without faults, in which no check may find a violation
POWER_CUTS_BAR = 5_000
LIVE_HOURS_BAR = 2.0
_CUTTING = frozenset(kind.name for kind in (*KINDS, *CHOREOGRAPHIES) if kind.driver is Driver.LOOP)


def render(rows: Sequence[Row], codes: Mapping[str, str], commit: str) -> str:
    """The page, from all rows of a ledger. `codes`: the keys of the code as it is now."""
    simulated, live = _counting(rows, SIMULATOR, REPLICA, codes), _counting(rows, LIVE, LOG, codes)
    lines = [
        "# Counts",
        "",
        f"Of commit {commit or 'unknown'}. `dledger sim --counts` and `dledger chaos run --counts`",
        "add to them. A change of what a subsystem imports starts its counts again, and no others.",
        "",
        "| subsystem | code |",
        "|---|---|",
        *(f"| {subsystem} | `{key}` |" for subsystem, key in codes.items()),
        "",
        *_simulated(simulated),
        "",
        *_live(live),
        "",
        *_missing(bars(rows, codes)),
    ]
    older = [row for row in rows if row not in simulated and row not in live]
    return "\n".join([*lines, *(_older(older) if older else ())]) + "\n"


def _counting(
    rows: Sequence[Row], arena: str, subsystem: str, codes: Mapping[str, str]
) -> list[Row]:
    """Rows of an arena that count for a subsystem as it is now, each once."""
    return _once([row for row in rows if row["arena"] == arena and is_of(row, subsystem, codes)])


def _simulated(rows: Sequence[Row]) -> list[str]:
    lines = [
        f"## Simulated (bar: {SEEDS_BAR:,} seeds of random faults, 0 violations)",
        "",
        "| faults | seeds | virtual hours | x real time, one core | acknowledged | violations |",
        "|---|---|---|---|---|---|",
    ]
    for profile, found in _by_profile(rows):
        seconds, cpu = _sum(found, "seconds"), _sum(found, "cpu_seconds")
        lines.append(
            f"| {profile} | {_seeds(found):,} | {seconds / 3600:,.1f} "
            f"| {seconds / cpu if cpu else 0.0:.0f} | {_sum(found, 'acked'):,.0f} "
            f"| {_sum(found, 'violations'):.0f} |"
        )
    return lines


def _live(rows: Sequence[Row]) -> list[str]:
    lines = [
        f"## Real processes (bars: {POWER_CUTS_BAR:,} power cuts; {LIVE_HOURS_BAR:g} h in one run)",
        "",
        "| settings | runs | valid | hours | longest, hours | faults | of kinds | power cuts "
        "| pages lost by them | acknowledged | lost |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for profile, found in _by_profile(rows):
        valid = sum(row["verdict"] == "valid" for row in found)
        longest = max(float(row["seconds"]) for row in found)
        lines.append(
            f"| {profile} | {len(found)} | {valid} | {_sum(found, 'seconds') / 3600:.2f} "
            f"| {longest / 3600:.2f} | {_sum(found, 'faults_total'):,.0f} "
            f"| {len(_kinds(found))} | {_sum(found, 'power_cuts'):,.0f} "
            f"| {_sum(found, 'lost_pages'):,.0f} | {_sum(found, 'acked'):,.0f} "
            f"| {_sum(found, 'lost'):.0f} |"
        )
    power = [(kind, n) for kind, n in sorted(_kinds(rows).items()) if kind in _CUTTING]
    if power:
        cuts = ", ".join(f"{n:,} of {kind}" for kind, n in power)
        lines += ["", f"Faults that cut power, of one node or of all: {cuts}."]
    return lines


def _kinds(rows: Sequence[Row]) -> Counter[str]:
    """How often each kind of fault took effect."""
    return sum((Counter(row.get("kinds", {})) for row in rows), Counter())


class Bar(NamedTuple):
    """A number to be reached by a subsystem. `command` counts more of it, and goes on from the last
    count."""

    name: str
    subsystem: str
    wanted: float
    counted: float
    command: str

    @property
    def is_reached(self) -> bool:
        """True if as much was counted as is wanted."""
        return self.counted >= self.wanted


def bars(rows: Sequence[Row], codes: Mapping[str, str]) -> list[Bar]:
    """Every bar, with the count of this code."""
    seeds_run = _counting(rows, SIMULATOR, REPLICA, codes)
    drawn, calm = (_seeds(_proving(seeds_run, profile)) for profile in ("drawn", "calm"))
    of_broker = _clean(_counting(rows, LIVE, BROKER, codes))
    hours = max((float(row["seconds"]) / 3600 for row in of_broker), default=0.0)
    cuts = _sum(_clean(_counting(rows, LIVE, LOG, codes)), "power_cuts")
    run, seeds = "dledger chaos run --config conf", "dledger sim --seeds 0.."
    power, nightly = f"{run}/chaos-power.toml --seconds 600", f"{run}/chaos-nightly.toml --seconds"
    return [
        Bar(
            "simulated seeds without a violation", REPLICA, SEEDS_BAR, drawn, f"{seeds}{SEEDS_BAR}"
        ),
        Bar("without a fault, no alarm", REPLICA, CALM_BAR, calm, f"{seeds}{CALM_BAR} --calm"),
        Bar("power cuts", LOG, POWER_CUTS_BAR, cuts, power),
        Bar(
            "hours of one valid run",
            BROKER,
            LIVE_HOURS_BAR,
            hours,
            f"{nightly} {LIVE_HOURS_BAR * 3600:.0f}",
        ),
    ]


def _missing(found: Sequence[Bar]) -> list[str]:
    """Table of the bars with the command that counts on towards each."""
    return [
        "## The bars",
        "",
        "| bar | of | wanted | counted | command |",
        "|---|---|---|---|---|",
        *(
            f"| {bar.name} | {bar.subsystem} | {bar.wanted:,.0f} "
            f"| {bar.counted:,.{0 if bar.wanted > 100 else 2}f} "
            f"| {'reached' if bar.is_reached else f'`{bar.command} --counts`'} |"
            for bar in found
        ),
    ]


def _clean(live: Sequence[Row]) -> list[Row]:
    """Live runs that were valid and lost no message."""
    return [row for row in live if row["verdict"] == "valid" and not row["lost"]]


def _once(rows: Sequence[Row]) -> list[Row]:
    """The rows without repeats: two commands at once may have run a chunk; lines may be equal."""
    by_name = {
        (row["profile"], row["chunk"]) if row["arena"] == SIMULATOR else repr(row): row
        for row in rows
    }
    return list(by_name.values())


def _seeds(rows: Sequence[Row]) -> int:
    """Number of different seeds; chunks may overlap."""
    parts: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in rows:
        numbers, _, others = row["chunk"].partition(" ")
        first, _, behind = numbers.partition("..")
        parts[others].append((int(first), int(behind)))
    count = 0
    for ranges in parts.values():
        end = 0
        for first, behind in sorted(ranges):
            count += max(0, behind - max(first, end))
            end = max(end, behind)
    return count


def _proving(rows: Sequence[Row], profile: str) -> list[Row]:
    """Returns the chunks of whole seeds without a violation."""
    return [
        row
        for row in rows
        if row["arena"] == SIMULATOR
        and row["profile"] == profile
        and not row["violations"]
        and float(row["seconds"]) >= SEED_SECONDS * float(row["seeds"])
        and _load_seconds(row) >= SEED_SECONDS
    ]


def _load_seconds(row: Row) -> float:
    """Seconds of faults and load per seed, from the chunk's name; the whole run takes longer."""
    named = re.search(r" seconds (\d+(?:\.\d+)?)", str(row["chunk"]))
    return float(named[1]) if named else SEED_SECONDS


def _older(rows: Sequence[Row]) -> list[str]:
    """Lines on the counts of earlier code, which prove no bar of the present code."""
    seeds = _sum([row for row in rows if row["arena"] == SIMULATOR], "seeds")
    cuts = _sum([row for row in rows if row["arena"] == LIVE], "power_cuts")
    return [
        "",
        f"Of earlier code, and no longer counted: {seeds:,.0f} seeds, {cuts:,.0f} cuts.",
    ]


def _by_profile(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["profile"]].append(row)
    return sorted(found.items())


def _sum(rows: Sequence[Row], name: str) -> float:
    return sum(float(row.get(name, 0)) for row in rows)
