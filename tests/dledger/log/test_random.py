"""The file log against the obvious one, by random search: any calls in any order, with crashes."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from commitlog.errors import StoreDamaged
from dledger.core.types import EntryId, Index, Term
from dledger.durable.double_slot import DoubleSlot
from dledger.errors import NotDone, RangeRejected
from dledger.log.check import Tail
from dledger.log.encode import encode_batch, encode_one
from dledger.testing.conformance import received
from dledger.testing.memory import MemoryLog
from tests.dledger.log.crash_files import CrashDisk, PowerCut
from tests.dledger.log.stores import (
    DATA_FILE_SIZE,
    FOLDER,
    Clock,
    body_of,
    copy_all,
    dump,
    fill,
    make,
    mark,
    reopen,
)

SIZES = st.lists(st.integers(0, DATA_FILE_SIZE - 56), min_size=1, max_size=6)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), SIZES),
        st.tuples(st.just("append"), SIZES),
        st.tuples(st.just("term"), st.integers(1, 3)),
        st.tuples(st.just("begin_sync"), st.none()),
        st.tuples(st.just("finish_sync"), st.none()),
        st.tuples(st.just("mark"), st.none()),
        st.tuples(st.just("truncate"), st.integers(0, 30)),
        st.tuples(st.just("prepare"), st.none()),
        st.tuples(st.just("kill"), st.none()),
        st.tuples(st.just("power cut"), st.sampled_from([0.0, 0.5, 0.9])),
        st.tuples(st.just("close"), st.none()),
        st.tuples(st.just("fuse"), st.integers(0, 12)),
    ),
    max_size=40,
)


class Pair:
    """Both logs, and what a crash may take."""

    def __init__(self, seed: int) -> None:
        self.disk = CrashDisk()
        self.disk.random = Random(seed)
        self.clock = Clock()
        make(self.disk).close()
        self.node = reopen(self.disk, clock=self.clock)
        self.model = MemoryLog(file_size=DATA_FILE_SIZE)
        self.term = 1
        self.flushed = -1
        self.task: Any = None

    def step(self, name: str, value: Any) -> None:
        before = dump(self.model)
        try:
            self.carry_out(name, value)
        except PowerCut:
            if self.disk.random.random() < 0.5:
                self.disk.restart()
            else:
                self.disk.crash(keep=0.5)
            self.reopen(before)

    def carry_out(self, name: str, value: Any) -> None:
        log = self.node.log
        match name:
            case "append":
                first = self.model.last.index + 1
                bodies = [
                    body_of(first + number, self.term, size) for number, size in enumerate(value)
                ]
                self.model.append(bodies, Term(self.term))
                log.append(bodies, Term(self.term))
            case "term":
                self.term += value
            case "begin_sync":
                self.task = self.task or log.begin_sync()
            case "finish_sync" if self.task is not None:
                self.task.run()
                self.flushed = log.finish_sync(self.task)
                self.task = None
            case "mark":
                self.clock.now += 10
                mark(log)
            case "truncate":
                last = max(-1, self.model.last.index - value)
                self.flushed = min(self.flushed, last)
                self.model.truncate_after(Index(last))
                log.truncate_after(Index(last))
            case "prepare":
                task = log.begin_prepare()
                if task is not None:
                    task.run()
            case "fuse":
                self.disk.fuse = value
            case _:
                self.stop(name, value)

    def stop(self, name: str, value: Any) -> None:
        before = dump(self.model)
        match name:
            case "kill":
                self.disk.restart()
                self.flushed = self.model.last.index
            case "power cut":
                self.disk.crash(keep=value)
            case "close" if self.task is None:
                self.node.close()
                self.disk.crash(keep=0.0)
                self.flushed = self.model.last.index
            case _:
                return
        self.reopen(before)

    def reopen(self, before: list[tuple[int, int, int, bytes]]) -> None:
        """What comes back is a prefix of the log before or after the step, with all flushed."""
        self.task = None
        self.node = reopen(self.disk, clock=self.clock)
        found, wanted = dump(self.node.log), dump(self.model)
        assert found in (before[: len(found)], wanted[: len(found)])
        assert len(found) > self.flushed
        self.model = MemoryLog(file_size=DATA_FILE_SIZE)
        copy_all(self.node.log, self.model)
        self.flushed = self.node.log.flushed

    def check(self) -> None:
        log, model = self.node.log, self.model
        assert (log.last, log.end_position) == (model.last, model.end_position)
        assert log.term_runs() == model.term_runs()
        assert log.flushed == self.flushed or self.task is not None


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS, seed=st.integers(0, 1000))
def test_any_calls_in_any_order_with_crashes(steps: list[tuple[str, Any]], seed: int) -> None:
    """D3, D6, D8, R1, R3, R10, R11, R13."""
    pair = Pair(seed)
    for name, value in steps:
        pair.step(name, value)
        pair.check()
    assert dump(pair.node.log) == dump(pair.model)
    pair.disk.fuse = None
    pair.stop("kill", None)
    pair.check()


@settings(max_examples=100, deadline=None)
@given(
    batches=st.lists(SIZES, min_size=1, max_size=8),
    first=st.integers(0, 40),
    size_max=st.integers(1, 4000),
    data=st.data(),
)
def test_ranges_are_equal_from_cache_disk_and_memory(
    batches: list[list[int]], first: int, size_max: int, data: st.DataObject
) -> None:
    """S10: the same bytes for the same entries, wherever they come from."""
    disk = CrashDisk()
    fresh, model = make(disk).log, MemoryLog(file_size=DATA_FILE_SIZE)
    for term, sizes in enumerate(batches):
        bodies = [body_of(number, term, size) for number, size in enumerate(sizes)]
        assert fresh.append(bodies, Term(term)) == model.append(bodies, Term(term))
    assume(first <= model.last.index + 1)
    cold = reopen(disk, cache_size_max=0).log
    last = data.draw(st.integers(first - 1, model.last.index + 3))
    wanted = received(model.read_range(Index(first), Index(last), size_max))
    for log in (fresh, cold):
        assert received(log.read_range(Index(first), Index(last), size_max)) == wanted


@settings(max_examples=150, deadline=None)
@given(
    count=st.integers(1, 12),
    here=st.integers(0, 12),
    flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), max_size=3),
    cut=st.integers(0, 300),
)
def test_mangled_ranges_are_rejected_or_harmless(
    count: int, here: int, flips: list[tuple[int, int]], cut: int
) -> None:
    """Whatever a peer sends: the log stays a prefix of the true one (D7, R19)."""
    source = MemoryLog(file_size=DATA_FILE_SIZE)
    fill(source, count, size=220)
    target = make(CrashDisk()).log
    fill(target, min(here, count), size=220)
    part = received(source.read_range(Index(0), source.last.index, 1 << 20))
    data = bytearray(part.parts[0])
    for offset, mask in flips:
        data[offset % len(data)] ^= mask
    mangled = bytes(data[: len(data) - cut])
    try:
        target.append_range(part._replace(parts=(mangled,)), Index(target.last.index + 1))
    except (RangeRejected, StoreDamaged):
        assert mangled != part.parts[0]
    assert dump(target) == dump(source)[: len(dump(target))]


@given(
    size=st.integers(0, 1100),
    end=st.integers(0, 3000),
    stamp_at=st.sampled_from([-1, 0, 28, 500]),
    fill_crc=st.booleans(),
)
def test_one_entry_is_made_as_a_batch_of_one_is(
    size: int, end: int, stamp_at: int, fill_crc: bool
) -> None:
    start = Tail(EntryId(Term(3), Index(7)), 12345, end)
    outcomes = []
    for make_one in (encode_one, lambda body, *rest, **more: encode_batch([body], *rest, **more)):
        try:
            batch = make_one(
                bytes(size), Term(4), start, file_size=1024, stamp_at=stamp_at, fill_crc=fill_crc
            )
            outcomes.append((batch.data, bytes(batch.slots), batch.positions, batch.tail))
        except NotDone as refused:
            outcomes.append(str(refused))
    assert outcomes[0] == outcomes[1]


@given(payloads=st.lists(st.binary(max_size=64), min_size=1, max_size=5), seed=st.integers(0, 99))
def test_a_double_slot_holds_the_last_value_or_the_one_before(
    payloads: list[bytes], seed: int
) -> None:
    path = FOLDER / "slots"
    disk = CrashDisk()
    disk.random = Random(seed)
    slots = DoubleSlot.create(disk, path, b"first", staging=FOLDER)
    known = b"first"
    for payload in payloads:
        disk.fuse = disk.random.choice((0, 1, 5))
        try:
            slots.write(payload)
        except PowerCut:
            disk.crash(keep=0.5)
        else:
            known = payload
            disk.crash(keep=0.0)
        slots = DoubleSlot.open(disk, path)
        assert slots.payload in (known, payload)
        assert slots.payload is not None
        known = slots.payload
