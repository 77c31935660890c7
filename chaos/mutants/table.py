"""Every mutant, by name."""

from __future__ import annotations

from chaos.mutants.access_rules import ACCESS
from chaos.mutants.account_rules import ACCOUNTS
from chaos.mutants.aside_rules import ASIDE
from chaos.mutants.broker_rules import BROKER
from chaos.mutants.checker_rules import CHECKERS
from chaos.mutants.checkpoint_rules import CHECKPOINTS
from chaos.mutants.delayed_rules import DELAYED_RULES
from chaos.mutants.disk_rules import DISKS
from chaos.mutants.durability_rules import DURABILITY
from chaos.mutants.election_rules import ELECTION
from chaos.mutants.embedded_rules import EMBEDDED
from chaos.mutants.file_rules import FILES
from chaos.mutants.generation_rules import GENERATIONS
from chaos.mutants.kept_rules import KEPT
from chaos.mutants.lease_rules import LEASES
from chaos.mutants.machine_rules import MACHINES
from chaos.mutants.membership_rules import MEMBERSHIP
from chaos.mutants.mistake_rules import MISTAKES
from chaos.mutants.mutant import Mutant
from chaos.mutants.object_rules import OBJECTS
from chaos.mutants.owner_rules import OWNERS
from chaos.mutants.pop_rules import POPS
from chaos.mutants.quiet_rules import QUIET
from chaos.mutants.refusal_rules import REFUSALS
from chaos.mutants.repair_rules import REPAIR
from chaos.mutants.replica_rules import PRODUCERS, REPLICA, WIRE
from chaos.mutants.replication_rules import READS, REPLICATION
from chaos.mutants.simulated_rules import SIMULATED
from chaos.mutants.snapshot_rules import SNAPSHOTS
from chaos.mutants.span_rules import SPANS
from chaos.mutants.state_rules import STATES
from chaos.mutants.step_down_rules import STEP_DOWN
from chaos.mutants.storage_rules import STORAGE
from chaos.mutants.together_rules import TOGETHER
from chaos.mutants.tool_rules import TOOLS
from chaos.mutants.transaction_rules import TRANSACTIONS
from chaos.mutants.turn_rules import TURNS

MUTANTS: tuple[Mutant, ...] = (
    *ELECTION,
    *REPLICATION,
    *READS,
    *SPANS,
    *KEPT,
    *ASIDE,
    *LEASES,
    *QUIET,
    *DURABILITY,
    *MEMBERSHIP,
    *GENERATIONS,
    *DISKS,
    *STORAGE,
    *FILES,
    *REPAIR,
    *SNAPSHOTS,
    *MACHINES,
    *TOGETHER,
    *TURNS,
    *OBJECTS,
    *SIMULATED,
    *EMBEDDED,
    *STATES,
    *TOOLS,
    *REPLICA,
    *PRODUCERS,
    *REFUSALS,
    *MISTAKES,
    *WIRE,
    *BROKER,
    *ACCESS,
    *ACCOUNTS,
    *OWNERS,
    *DELAYED_RULES,
    *POPS,
    *TRANSACTIONS,
    *STEP_DOWN,
    *CHECKPOINTS,
    *CHECKERS,
)

_BY_NAME = {mutant.name: mutant for mutant in MUTANTS}
assert len(_BY_NAME) == len(MUTANTS), "two mutants have one name"


def find(name: str) -> Mutant:
    """Raises KeyError."""
    return _BY_NAME[name]
