"""One case for both judges: the checkers, and the rules over arrays from tables in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from chaos.checkers.anomaly import Log
from chaos.history import Operation
from pipeline.jobs.history.check import judge_queues
from pipeline.jobs.history.circumstances import Circumstances
from pipeline.jobs.history.columns import SCHEMA
from pipeline.jobs.history.files import history_table, log_table
from tests.chaos.checkers.golden_cases import Case


class Said(NamedTuple):
    """What a judge said. Details are not compared: the rules over arrays give none."""

    names: frozenset[str]
    acked: int
    taken_back: int


@dataclass(frozen=True, slots=True)
class Tables:
    """A queue of `check`, without files."""

    log: str
    history: tuple[Operation, ...]
    replicas: Mapping[str, Log]

    def operations(self, schema: pa.Schema = SCHEMA) -> pa.Table:
        return history_table(self.history).select(schema.names)

    def logs(self) -> dict[str, pa.Table]:
        return {name: log_table(log) for name, log in self.replicas.items()}


def circumstances_of(case: Case) -> Circumstances:
    return Circumstances(case.begins, tuple(case.blackouts))


def of_arrays(case: Case) -> Said:
    names = {op.log for op in case.history}.union(*case.replicas.values())
    queues = [
        Tables(
            name,
            tuple(op for op in case.history if op.log == name),
            {replica: logs.get(name, ()) for replica, logs in case.replicas.items()},
        )
        for name in sorted(names)
    ]
    found = judge_queues(
        queues, circumstances_of(case), acked_min=0, everything_read=case.everything_read
    )
    return Said(frozenset(found.names), found.acked, found.taken_back)


def of_the_checkers(case: Case) -> Said:
    found = case.judged()
    names = frozenset(anomaly.name for anomaly in found.anomalies)
    return Said(names, found.acked, found.taken_back)
