"""What deriving a message costs, entry by entry and as columns, both in one run.

Microseconds per message are printed (`pytest -s`); only their ratio is judged, and that in the long
layer. That both derive the same is tested in every suite.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

import pytest

from cluster.core.apply import SPECIAL_TOPIC_FIELDS, AppliedState
from cluster.core.topics import built_in_topics
from commitlog.dispatch.accel_columns import read_stretches
from commitlog.dispatch.dispatcher import Dispatcher
from commitlog.files.system import OS_FILES
from commitlog.index.index_format import IndexGeometry
from commitlog.index.index_service import IndexService
from commitlog.queues.consume_queues import ConsumeQueues
from commitlog.records.record import HEADER_SIZE
from dledger.core.types import Index
from tests.commitlog.entry_log import EntryLog, Run

pytestmark = pytest.mark.usefixtures("numpy_loaded")

ROUNDS = 12
RATIO_MIN = {256: 1.2, 1024: 2.0}  # 2.3 and 5 on a quiet machine


class Node:
    """Queues, index and state of one node."""

    def __init__(self, root: Path) -> None:
        staging = root / "staging"
        self.queues = ConsumeQueues(OS_FILES, root, staging=staging)
        self.index = IndexService(
            OS_FILES, root / "index", staging=staging, geometry=IndexGeometry(100_000, 400_000)
        )
        self.dispatcher = Dispatcher(self.queues, self.index, entries=True)
        self.state = AppliedState(built_in_topics("C", "B"))

    def derive(self, data: bytes, *, columns: bool) -> float:
        """Seconds that it took."""
        position, first = self.dispatcher.position, Index(self.state.applied + 1)
        began = time.perf_counter()
        stretches = read_stretches(data, position, SPECIAL_TOPIC_FIELDS) if columns else ()
        self.dispatcher.dispatch(position, (data,), stretches=stretches)
        self.state.apply(data, first, stretches)
        return time.perf_counter() - began

    def close(self) -> None:
        self.queues.close()
        self.index.close()


@pytest.mark.parametrize("count", RATIO_MIN)
def test_columns_derive_the_same(tmp_path: Path, count: int) -> None:
    derived(tmp_path, count, rounds=2)


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.parametrize("count", RATIO_MIN)
def test_columns_cost_a_fraction(tmp_path: Path, count: int) -> None:
    seconds = derived(tmp_path, count, ROUNDS)
    one, other = (median(seconds[columns]) / count * 1e6 for columns in (False, True))
    print(f"chunks of {count}: {one:.2f} µs, as columns {other:.2f} µs, {one / other:.1f} to 1")
    assert one > RATIO_MIN[count] * other


def derived(tmp_path: Path, count: int, rounds: int) -> dict[bool, list[float]]:
    """Seconds of each round, one by one and as columns; both have derived the same."""
    slow, quick = Node(tmp_path / "slow"), Node(tmp_path / "quick")
    log = EntryLog(first_number=1000)
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for round_ in range(rounds + 1):
        begin = len(log.data)
        for at in range(count // 16):
            log.add(Run(queue=at % 4, count=16, body_size=1024))
        data = bytes(log.data[begin:])
        for columns, node in ((False, slow), (True, quick)):
            took = node.derive(data, columns=columns)
            if round_:  # the first one makes files and queues
                seconds[columns].append(took)
    assert quick.dispatcher.position == slow.dispatcher.position == len(log.data)
    assert quick.state.all_ends() == slow.state.all_ends()
    assert quick.index.entry_count == slow.index.entry_count == len(log.starts)
    assert log.starts[1] - log.starts[0] > HEADER_SIZE + 1024
    slow.close()
    quick.close()
    return seconds
