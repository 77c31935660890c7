"""python -m chaos.testing OBJECT SEEDS|CASE [FILE]: seeds of a ready object; see README.md."""

from __future__ import annotations

import sys
from pathlib import Path

from chaos.testing.counting import code_of_objects, count, table_of
from chaos.testing.objects import OBJECTS, ObjectPlan
from chaos.testing.shrink import Case
from chaos.testing.words import a_case, seeds_of


def main(arguments: list[str]) -> int:
    """Run them; 1 when one is wrong, 2 for unknown words."""
    if len(arguments) not in (2, 3) or arguments[0] not in OBJECTS:
        print(f"{__doc__}\nOBJECT: one of {', '.join(OBJECTS)}", file=sys.stderr)
        return 2
    name, words = arguments[0], arguments[1]
    try:
        if "/" in words and not arguments[2:]:
            return _show_case(name, a_case(words))
        seeds = seeds_of(words)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return _count(name, seeds, Path(arguments[2])) if arguments[2:] else _show(name, seeds)


def _show_case(name: str, case: Case) -> int:
    outcome = ObjectPlan(name, case.seed, case.seed + 1).run(case.seed, case)
    if outcome.violation:
        print(f"{name} seed {case.words()}: {outcome.violation}: {outcome.detail}")
    else:
        print(name, outcome.report)
    return 1 if outcome.violation else 0


def _show(name: str, seeds: range) -> int:
    plan = ObjectPlan(name, seeds.start, seeds.stop)
    for seed in seeds:
        outcome = plan.run(seed)
        if outcome.violation:
            print(f"{name} seed {seed}: {outcome.violation}: {outcome.detail}", flush=True)
            shrunk = plan.shrink(seed)
            print(plan.again(seed) if shrunk is None else shrunk.text(plan.command))
            return 1
        print(name, outcome.report, flush=True)
    return 0


def _count(name: str, seeds: range, file: Path) -> int:
    wrong = 0
    for row in count(name, seeds, file):
        wrong += len(row["violations"])
        print(f"{name} {row['first']}..{row['behind']}: {row['violations'] or 'clean'}", flush=True)
    print(table_of(file, code_of_objects()))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
