"""One failing seed of a mutant made smaller, in a process of its own.

    python -m chaos.replay.child NAME FIRST

Prints one JSON object about the first seed from FIRST on that fails, null when none of the mutant's
seeds does.
"""

from __future__ import annotations

import json
import sys

from chaos.mutants.patch import install
from chaos.mutants.table import find
from chaos.tools.pool import end_with_parent


def main(arguments: list[str]) -> None:
    """Search from the seed FIRST on and print the result; see the module's text."""
    end_with_parent()
    mutant, first = find(arguments[0]), int(arguments[1])
    install(mutant.patches)
    # Imported behind the patch: it changes modules while they are imported.
    from chaos.replay.shrink import shrink
    from chaos.sim.runner import Plan

    row: dict[str, object] | None = None
    for seed in range(max(first, mutant.first), mutant.first + mutant.seeds):
        plan = Plan(seed, seed + 1, mutant.nodes, 60.0, mutant.profile)
        smaller = shrink(plan, seed)
        if smaller is not None:
            row = {
                "mutant": mutant.name,
                "seed": seed,
                "violation": smaller.result.violation,
                "before": smaller.whole,
                "left": smaller.left,
                "kinds": [one.kind for one in smaller.result.begun],
                "again": smaller.plan.again(seed),
            }
            break
    print(json.dumps(row))


if __name__ == "__main__":
    main(sys.argv[1:])
