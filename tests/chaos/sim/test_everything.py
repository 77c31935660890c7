"""One seed of all that a group meets: members that change, states, sick disks and rot at once."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from chaos.sim.command import sim
from chaos.sim.disk_duty import DiskDuty
from chaos.sim.profile import EVERYTHING, Profile
from chaos.sim.repair_duty import RepairDuty
from chaos.sim.runner import Plan
from chaos.sim.world import World

#: All that is looked for is found in the first ten.
SEEDS_MAX = 20


def test_all_of_it_really_happens() -> None:
    """Any seed may draw any of it; which one does what changes with the code that is simulated."""
    wanted = {"bit-rot", "member-wipe", "disk-hang", "STALLED", "healed", "trimmed"}
    seen: set[str] = set()
    for seed in range(SEEDS_MAX):
        world = World(seed, 3, 40.0, profile=EVERYTHING)
        result = world.run()
        assert not result.violation, seed
        assert result.acked > 0
        assert world.churn is not None
        assert world.trimmer is not None
        seen |= result.faults.keys()
        seen |= {"trimmed"} if world.trimmer.begun else set()
        for node in world.nodes:
            disk_duty, repair_duty = node.duties
            assert isinstance(disk_duty, DiskDuty)
            assert isinstance(repair_duty, RepairDuty)
            seen |= {health.name for health in disk_duty.seen}
            seen |= {"healed"} if node.disk.healed else set()
        if wanted <= seen:
            return
    raise AssertionError(f"{wanted - seen} in none of {SEEDS_MAX} seeds")


@pytest.mark.long
@pytest.mark.parametrize(
    ("seed", "nodes"),
    [
        (169, 3),  # the newest entries rot before a node that was elected looks at them
        (203, 5),  # a voter's damage is in what all others delete: it is given a state
    ],
)
def test_a_seed_that_showed_something_is_clean(seed: int, nodes: int) -> None:
    plan = Plan(seed, seed + 1, nodes, 60.0, profile=EVERYTHING)
    assert not plan.run(seed).violation, plan.again(seed)


def test_its_name_is_one_word_that_comes_back_as_all_flags() -> None:
    plan = Plan(5, 6, 0, 5.0, profile=EVERYTHING)
    assert plan.again(5) == "dledger sim --seed 5 --nodes 3 --seconds 5 --everything"
    assert plan.counted_as == "drawn --everything"
    assert plan.run(5).trace_hash == plan.run(5).trace_hash
    assert Profile(True, True, True, False).words() == [
        "--membership",
        "--snapshots",
        "--sick-disks",
    ]
    said = CliRunner().invoke(sim, ["--seed", "5", "--seconds", "2", "--everything"]).output
    flags = ["--membership", "--snapshots", "--sick-disks", "--repair"]
    assert CliRunner().invoke(sim, ["--seed", "5", "--seconds", "2", *flags]).output == said
