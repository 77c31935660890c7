"""chaos/COUNTS.md: what was counted of the code as it is, against the bars of chaos.md 6."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from chaos.counts.ledger import LIVE, SIMULATOR, Row

SEEDS_BAR = 100_000
POWER_CUTS_BAR = 5_000
LIVE_HOURS_BAR = 2.0


def render(rows: Sequence[Row], code: str, commit: str) -> str:
    """The page, from all rows of a ledger."""
    mine = [row for row in rows if row["code"] == code]
    lines = [
        "# Counts",
        "",
        f"Code of core and storage: `{code}`, commit {commit or 'unknown'}. A change of either",
        "starts the count again. `dledger sim --counts FILE` and `dledger chaos run --counts FILE`",
        "add to it, `dledger chaos counts FILE --write` made this page.",
        "",
        *_simulated([row for row in mine if row["arena"] == SIMULATOR]),
        "",
        *_live([row for row in mine if row["arena"] == LIVE]),
        "",
        *_missing(mine),
    ]
    older = [row for row in rows if row["code"] != code]
    return "\n".join([*lines, *(_older(older) if older else ())]) + "\n"


def _simulated(rows: Sequence[Row]) -> list[str]:
    lines = [
        f"## Simulated (bar: {SEEDS_BAR:,} drawn seeds, 0 violations)",
        "",
        "| faults | seeds | virtual hours | x real time, one core | acknowledged | violations |",
        "|---|---|---|---|---|---|",
    ]
    for profile, found in _by_profile(rows):
        seconds, cpu = _sum(found, "seconds"), _sum(found, "cpu_seconds")
        lines.append(
            f"| {profile} | {_sum(found, 'seeds'):,.0f} | {seconds / 3600:,.1f} "
            f"| {seconds / cpu if cpu else 0.0:.0f} | {_sum(found, 'acked'):,.0f} "
            f"| {_sum(found, 'violations'):.0f} |"
        )
    return lines


def _live(rows: Sequence[Row]) -> list[str]:
    lines = [
        f"## Real processes (bars: {POWER_CUTS_BAR:,} power cuts; {LIVE_HOURS_BAR:g} h in one run)",
        "",
        "| settings | runs | valid | hours | longest, hours | faults | power cuts | acknowledged "
        "| lost |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for profile, found in _by_profile(rows):
        valid = sum(row["verdict"] == "valid" for row in found)
        longest = max(float(row["seconds"]) for row in found)
        lines.append(
            f"| {profile} | {len(found)} | {valid} | {_sum(found, 'seconds') / 3600:.2f} "
            f"| {longest / 3600:.2f} | {_sum(found, 'faults_total'):,.0f} "
            f"| {_sum(found, 'power_cuts'):,.0f} | {_sum(found, 'acked'):,.0f} "
            f"| {_sum(found, 'lost'):.0f} |"
        )
    return lines


def _missing(rows: Sequence[Row]) -> list[str]:
    """What is still to be run, and by which command; a count goes on where it stopped."""
    live = [row for row in rows if row["arena"] == LIVE]
    drawn = [row for row in rows if row["arena"] == SIMULATOR and row["profile"] == "drawn"]
    valid = [float(row["seconds"]) / 3600 for row in live if row["verdict"] == "valid"]
    run = "dledger chaos run --config conf"
    bars = (
        ("simulated seeds", SEEDS_BAR, _sum(drawn, "seeds"), f"dledger sim --seeds 0..{SEEDS_BAR}"),
        (
            "power cuts",
            POWER_CUTS_BAR,
            _sum(live, "power_cuts"),
            f"{run}/chaos-power.toml --seconds 600",
        ),
        (
            "hours of one valid run",
            LIVE_HOURS_BAR,
            max(valid, default=0.0),
            f"{run}/chaos-nightly.toml --seconds {LIVE_HOURS_BAR * 3600:.0f}",
        ),
    )
    return [
        "## Missing to the bars",
        "",
        "| bar | wanted | counted | command |",
        "|---|---|---|---|",
        *(
            f"| {name} | {wanted:,.0f} | {counted:,.{0 if wanted > 100 else 2}f} | "
            + (f"`{command} --counts FILE` |" if counted < wanted else "reached |")
            for name, wanted, counted, command in bars
        ),
    ]


def _older(rows: Sequence[Row]) -> list[str]:
    """What was counted before a change; it proves nothing of the code as it is."""
    seeds = _sum([row for row in rows if row["arena"] == SIMULATOR], "seeds")
    cuts = _sum([row for row in rows if row["arena"] == LIVE], "power_cuts")
    codes = len({row["code"] for row in rows})
    return [
        "",
        f"Before, of {codes} other states of the code: {seeds:,.0f} seeds, {cuts:,.0f} cuts.",
    ]


def _by_profile(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["profile"]].append(row)
    return sorted(found.items())


def _sum(rows: Sequence[Row], name: str) -> float:
    return sum(float(row[name]) for row in rows)
