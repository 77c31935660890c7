"""`Mutant`: the shipping code with one rule taken out."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.mutants.patch import Patch
from chaos.mutants.twin import Twin
from chaos.sim.profile import USUAL, Profile


@dataclass(frozen=True, slots=True)
class Mutant:
    """One rule taken out. Tests and seeds, where it has both, must both notice.

    Attributes:
        rules: what it breaks: of docs/rules.md that it takes out.
        seeds: so many seeds, from `first`, must show a violation; 0: the simulator is no killer.
        tests: directed tests, one of which must fail.
        nodes: cluster size of the seeds, 0 for mixed.
        argued: why nothing can or need kill it; then it is not run.
        rows: of the table in docs/spec/chaos.md 5.2 (spec_rows.py).
        first: seeds below it were seen to show nothing; they are left out to save time.
        profile: of the seeds.
        subject: the seeds are those of this ready object (chaos/testing/objects.py), "" of the log.
        hangs: without the rule nothing ends: only then a hang is a kill.
    """

    name: str
    rules: tuple[str, ...]
    patches: tuple[Patch | Twin, ...]
    seeds: int = 0
    tests: tuple[str, ...] = ()
    nodes: int = 0
    argued: str = ""
    rows: tuple[str, ...] = ()
    first: int = 0
    profile: Profile = USUAL
    subject: str = ""
    hangs: bool = False
