"""The page of `dledger mutants --write`: every mutant, its killer, seeds to kill, seconds."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.mutants.control import Control
from chaos.mutants.mutant import Mutant
from chaos.mutants.run import Fate
from chaos.mutants.spec_rows import ROWS, SpecRow, mutants_of
from chaos.mutants.within import line_within

_HEAD = "| row | mutant | rules | killed by | seeds to kill | seconds |\n|---|---|---|---|---|---|"


def markdown(mutants: Sequence[Mutant], fates: Sequence[Fate], control: Control) -> str:
    """The page. Mutants without a fate did not run: they have an argument instead, or no turn."""
    by_name = {fate.name: fate for fate in fates}
    killed = sum(fate.killed for fate in fates)
    seeds = sorted(fate.seed + 1 for fate in fates if fate.seed >= 0)
    middle = seeds[len(seeds) // 2] if seeds else 0
    lines = [
        "# Rules taken out, and the tests or seeds that noticed",
        "",
        "Made by `dledger mutants --write`. *Row*: in the table of bugs to seed; *seeds to kill*:",
        "runs of the simulator, from seed 0, until one shows a violation. Seconds are those of one",
        "process on a busy machine.",
        "",
        f"**Killed {killed}/{len(fates)}; {sum(bool(m.argued) for m in mutants)} more are argued. "
        f"{len(seeds)} are killed by seeds, half of them within {middle}, "
        f"all within {max(seeds, default=0)}.** Control, with every rule in its place: "
        f"{control.seeds} seeds and {control.tests} tests, "
        f"{'clean' if control.clean else 'RED: ' + ', '.join(control.red)}.",
        "",
        "## By row",
        "",
        _HEAD,
    ]
    for row in ROWS:
        lines += [_line(row.number, m, by_name.get(m.name)) for m in mutants_of(row, mutants)]
    lines += ["", "## Rows that an arena should kill and does not", ""]
    lines += ["| row | bug | wanted | not killed in | why |", "|---|---|---|---|---|"]
    for row in ROWS:
        lines += _missing(row)
    lines += ["", "## Mutants without a row", "", _HEAD]
    lines += [_line("", m, by_name.get(m.name)) for m in mutants if not m.rows]
    return "\n".join(lines) + "\n"


def _line(row: str, mutant: Mutant, fate: Fate | None) -> str:
    cells = [row, mutant.name, ", ".join(mutant.rules)]
    if mutant.argued:
        return f"| {' | '.join(cells)} | argued: {mutant.argued} | | |"
    if fate is None:
        return f"| {' | '.join(cells)} | not run | | |"
    seeds = f"{fate.seed + 1} (`{line_within(mutant.name, fate.again)}`)" if fate.seed >= 0 else ""
    return f"| {' | '.join(cells)} | {_killers(fate)} | {seeds} | {fate.seconds:.1f} |"


def _killers(fate: Fate) -> str:
    if not fate.killed:
        return fate.broke.splitlines()[-1] if fate.broke else "**nobody**"
    names = [f"seed {fate.seed}"] if fate.seed >= 0 else []
    names += ["hung"] if fate.hung else []
    return ", ".join([*names, *(f"`{_short(test)}`" for test in fate.tests)])


def _short(test: str) -> str:
    """A test's file below `tests/`, and its name."""
    path, _, name = test.partition("::")
    return f"{path.removeprefix('tests/')}::{name}"


def _missing(row: SpecRow) -> list[str]:
    return [
        f"| {row.number} | {row.bug} | {row.killers} | {letter} | {why} |"
        for letter, why in row.instead.items()
    ]
