"""What a mutant is."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.mutants.patch import Patch


@dataclass(frozen=True, slots=True)
class Mutant:
    """One rule taken out.

    Attributes:
        rules: what it breaks: requirements of raft_log.md 7, rules of safety_rules.md.
        seeds: so many seeds, from 0, must show a violation; 0: the simulator is not its killer.
        tests: directed tests, one of which must fail; asked before the simulator.
        nodes: cluster size of the seeds, 0 for mixed.
        argued: why nothing can or need kill it; then it is not run.
    """

    name: str
    rules: tuple[str, ...]
    patches: tuple[Patch, ...]
    seeds: int = 0
    tests: tuple[str, ...] = ()
    nodes: int = 0
    argued: str = ""
