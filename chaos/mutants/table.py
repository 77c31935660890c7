"""Every mutant, by name."""

from __future__ import annotations

from chaos.mutants.broker_rules import BROKER
from chaos.mutants.election_rules import ELECTION
from chaos.mutants.mutant import Mutant
from chaos.mutants.replica_rules import PRODUCERS, REPLICA, WIRE
from chaos.mutants.replication_rules import READS, REPLICATION
from chaos.mutants.storage_rules import STORAGE

MUTANTS: tuple[Mutant, ...] = (
    *ELECTION,
    *REPLICATION,
    *READS,
    *STORAGE,
    *REPLICA,
    *PRODUCERS,
    *WIRE,
    *BROKER,
)

_BY_NAME = {mutant.name: mutant for mutant in MUTANTS}
assert len(_BY_NAME) == len(MUTANTS), "two mutants have one name"


def find(name: str) -> Mutant:
    """Raises KeyError."""
    return _BY_NAME[name]
