"""Test classes for any `LogStore` and `HardStateStore`: subclass them to test your own store.

    class TestMyLog(LogStoreConformance):
        def make_log(self, file_size: int) -> LogStore: ...     # a new, empty one at each call

    class TestMyHardState(HardStateConformance):
        def make_hard_state(self, state: HardState) -> HardStateStore: ...

Run them with pytest, or with any runner that makes a new object for each `test_` method. They do
not test recovery after a crash, as each store has its own disk; port.py says what must survive.
"""

from __future__ import annotations

from collections.abc import Callable

from commitlog.errors import StoreDamaged
from commitlog.records.checksum import crc32
from commitlog.records.record import HEADER_SIZE, chain
from dledger.core.types import NO_ENTRY, NO_INDEX, EntryId, HardState, Index, NodeId, Term, TermRun
from dledger.errors import EntryTooLarge, LogUsageError, RangeRejected
from dledger.log.port import HardStateStore, LogRange, LogStore, ReceivedRange

FILE_SIZE = 1024
ALL = 1 << 30


def raises(
    error: type[BaseException] | tuple[type[BaseException], ...],
    call: Callable[..., object],
    *arguments: object,
) -> None:
    """Assert that the call raises one of the errors."""
    try:
        call(*arguments)
    except error:
        return
    raise AssertionError(f"nothing was raised where {error} was expected")


def received(part: LogRange) -> ReceivedRange:
    """The range as it would come from a peer."""
    return ReceivedRange(
        part.prev,
        part.prev_chain_crc,
        part.last,
        part.runs,
        part.position,
        part.size,
        (b"".join(part.parts),),
    )


def ship(part: LogRange, target: LogStore, first: Index) -> None:
    """Append a range to `target` as a follower does."""
    target.append_range(target.check_range(received(part)), first)


class LogStoreConformance:
    """Contract of `LogStore`, with files of 1024 bytes so that blanks come often."""

    def make_log(self, file_size: int) -> LogStore:
        """Override: returns a new, empty log with files of `file_size` bytes."""
        raise NotImplementedError("override me: a new, empty log with files of this size")

    def _filled(self, *terms: int, size: int = 100) -> LogStore:
        """A log with one entry for each term given."""
        log = self.make_log(FILE_SIZE)
        for number, term in enumerate(terms):
            log.append([bytes([65 + number % 26]) * size], Term(term))
        return log

    # -- appending ------------------------------------------------------------------------------

    def test_an_empty_log_has_nothing(self) -> None:
        """No entry, term or flushed index; positions are 0, and there is no sync to begin."""
        log = self.make_log(FILE_SIZE)
        assert log.last == NO_ENTRY
        assert (log.first_index, log.flushed) == (0, NO_INDEX)
        assert log.first_position == log.end_position == log.position_of(Index(0)) == 0
        assert log.term_runs() == []
        assert log.begin_sync() is None

    def test_entries_get_indexes_from_zero_and_positions_by_size(self) -> None:
        """A record that does not fit into the rest of a file begins the next file."""
        log = self.make_log(FILE_SIZE)
        assert list(log.append([b"a" * 300, b"b" * 300, b"c" * 300], Term(1))) == [0, 348, 1024]
        assert list(log.append([b"d" * 5], Term(1))) == [1372]
        assert log.last == EntryId(Term(1), Index(3))
        assert log.end_position == 1425

    def test_a_record_stays_in_its_file_only_with_eight_bytes_to_spare(self) -> None:
        """The last eight bytes of a file are reserved for the head of a blank, as in Java."""
        exact = FILE_SIZE - 2 * HEADER_SIZE - 100 - 8
        for size, second in ((exact, 148), (exact + 1, 1024)):
            log = self.make_log(FILE_SIZE)
            assert list(log.append([bytes(100), bytes(size)], Term(1))) == [0, second]

    def test_headers_and_checksums_are_those_of_the_format(self) -> None:
        """Sequence, size, CRCs and chain, field by field."""
        log, previous = self._filled(1, 1, 2, size=400), 0
        for index, entry in enumerate(log.entries(Index(0), Index(2))):
            header, (body, *_) = entry.header, log.bodies(Index(index), Index(2))
            assert body == (index, header.epoch, entry.body)
            assert (header.magic, header.sequence, header.channel) == (1, index, 0)
            assert header.size == HEADER_SIZE + len(entry.body) == HEADER_SIZE + header.body_size
            assert header.body_crc == crc32(entry.body)
            head = b"".join(
                number.to_bytes(width, "big", signed=True)
                for number, width in zip(header[:6], (4, 4, 8, 8, 8, 4), strict=True)
            )
            previous = chain(previous, head, header.body_crc)
            assert header.chain_crc == previous

    def test_the_address_of_the_body_is_stamped_before_the_checksum(self) -> None:
        """Only the 8 bytes at `stamp_at` change, and the body CRC covers them."""
        log = self.make_log(FILE_SIZE)
        positions = log.append([bytes(600), bytes(600)], Term(1), stamp_at=28)
        for index, position in enumerate(positions):
            entry = log.entry(Index(index))
            assert bytes(entry.body[28:36]) == (position + HEADER_SIZE).to_bytes(8, "big")
            assert not any(entry.body[:28])
            assert not any(entry.body[36:])
            assert entry.header.body_crc == crc32(entry.body)

    def test_bodies_are_copied(self) -> None:
        """The caller may use its buffer again after `append`."""
        log = self.make_log(FILE_SIZE)
        body = bytearray(b"before")
        log.append([body], Term(1))
        body[:] = b"behind"
        assert bytes(log.entry(Index(0)).body) == b"before"

    def test_an_entry_that_no_file_holds_is_refused_whole(self) -> None:
        """EntryTooLarge, and no body of the batch is appended."""
        log = self._filled(1)
        largest = log.body_size_max
        assert largest == FILE_SIZE - HEADER_SIZE - 8
        raises(EntryTooLarge, log.append, [b"x", bytes(largest + 1)], Term(1))
        assert log.last.index == 0
        log.append([bytes(largest)], Term(1))
        assert len(log.entry(Index(1)).body) == largest

    def test_a_body_without_space_for_its_stamp_is_refused_whole(self) -> None:
        """LogUsageError, and no body of the batch is appended."""
        log = self.make_log(FILE_SIZE)
        raises(LogUsageError, lambda: log.append([bytes(36), bytes(35)], Term(1), stamp_at=28))
        assert log.last == NO_ENTRY

    def test_an_empty_body_and_term_zero_are_legal(self) -> None:
        """Logs that Java wrote may hold both."""
        log = self._filled(0, size=0)
        assert log.last == EntryId(Term(0), Index(0))
        assert bytes(log.entry(Index(0)).body) == b""

    # -- looking up -----------------------------------------------------------------------------

    def test_positions_and_indexes_are_inverse(self) -> None:
        """`index_at(position_of(i)) == i`; other positions raise KeyError."""
        log = self._filled(*[1] * 40)
        for index in range(40):
            position = log.position_of(Index(index))
            assert log.index_at(position) == index
            raises(KeyError, log.index_at, position + 1)
        assert log.position_of(Index(40)) == log.end_position
        raises(KeyError, log.index_at, log.end_position)

    def test_terms_come_as_runs(self) -> None:
        """One run per term, named by its last index."""
        log = self._filled(1, 1, 1, 4, 5, 5)
        assert log.term_runs() == [(1, 2), (4, 3), (5, 5)]
        assert [log.id_of(Index(index)).term for index in range(6)] == [1, 1, 1, 4, 5, 5]

    def test_what_is_outside_the_log_is_an_index_error(self) -> None:
        """`position_of` and `read_range` also take the index after the last one."""
        log = self._filled(1, 1)
        for index in (2, 100):
            raises(IndexError, log.entry, Index(index))
            raises(IndexError, log.id_of, Index(index))
        raises(IndexError, log.position_of, Index(3))
        raises(IndexError, log.read_range, Index(3), Index(3), ALL)

    # -- ranges ---------------------------------------------------------------------------------

    def test_ranges_in_a_row_are_contiguous_and_make_an_equal_log(self) -> None:
        """For size limits from one byte to the whole log."""
        for size_max in (1, 150, 700, 3000, ALL):
            source = self._filled(*[1] * 9, *[3] * 14, *[4] * 7, size=170)
            target = self.make_log(FILE_SIZE)
            while target.last != source.last:
                first = Index(target.last.index + 1)
                part = source.read_range(first, source.last.index, size_max)
                assert part.prev == target.last
                assert part.position == target.end_position
                assert part.size == sum(map(len, part.parts))
                assert part.size <= size_max or part.last == first
                ship(part, target, first)
                assert target.last.index == part.last
            assert target.end_position == source.end_position
            assert target.term_runs() == source.term_runs()
            for index in range(30):
                assert target.entry(Index(index)) == source.entry(Index(index))

    def test_a_range_names_its_terms_and_ends_where_it_is_told(self) -> None:
        """The range also names the entry before it and that entry's chain checksum."""
        log = self._filled(1, 1, 2, 2, 3)
        part = log.read_range(Index(1), Index(3), ALL)
        assert part.prev == EntryId(Term(1), Index(0))
        assert part.prev_chain_crc == log.entry(Index(0)).header.chain_crc
        assert part.runs == (TermRun(Term(1), Index(1)), TermRun(Term(2), Index(3)))
        assert part.last == 3

    def test_bytes_are_those_of_the_ranges(self) -> None:
        """`read_bytes` begins and ends anywhere, also within a record."""
        log = self._filled(*[1] * 20, size=170)
        everything = b"".join(log.read_range(Index(0), log.last.index, ALL).parts)
        assert bytes(log.read_bytes(0, ALL)) == everything
        assert bytes(log.read_bytes(5, 700)) == everything[5:705]
        raises(IndexError, log.read_bytes, log.end_position + 1, 1)

    def test_an_empty_range_only_names_what_is_before_it(self) -> None:
        """A heartbeat carries such a range."""
        log = self._filled(1, 2)
        part = log.read_range(Index(2), Index(1), ALL)
        assert (part.prev, part.last, part.size, part.parts) == (log.last, 1, 0, ())
        ship(part, log, Index(2))
        assert log.last.index == 1
        start = log.read_range(Index(0), NO_INDEX, ALL)
        assert (start.prev, start.last, start.prev_chain_crc) == (NO_ENTRY, NO_INDEX, 0)

    def test_entries_that_are_here_already_are_skipped(self) -> None:
        """A leader may send a range again after a lost answer."""
        source = self._filled(*[1] * 20)
        for here in (1, 5, 6, 7, 19, 20):
            target = self.make_log(FILE_SIZE)
            ship(source.read_range(Index(0), Index(here - 1), ALL), target, Index(0))
            ship(source.read_range(Index(0), Index(19), ALL), target, Index(here))
            assert target.last == source.last
            assert target.end_position == source.end_position
            assert target.entry(Index(19)) == source.entry(Index(19))

    def test_no_flipped_bit_gets_in(self) -> None:
        """D7: the check needs no data of our own log, and finds every single flipped bit."""
        source = self._filled(1, 1, 2, 2, size=300)
        log = self.make_log(FILE_SIZE)
        part = received(source.read_range(Index(1), Index(3), ALL))
        good = bytes(part.parts[0])
        log.check_range(part)
        for offset in range(len(good)):
            bad = bytearray(good)
            bad[offset] ^= 1 << (offset % 8)
            raises(RangeRejected, log.check_range, part._replace(parts=(bytes(bad),)))
        assert log.last == NO_ENTRY

    def test_a_range_that_lies_about_itself_is_rejected(self) -> None:
        """`check_range` finds wrong terms, ends, sizes, positions and checksums."""
        source = self._filled(1, 1, 2, 2)
        part = received(source.read_range(Index(2), Index(3), ALL))
        data = bytes(part.parts[0])
        for wrong in (
            part._replace(position=part.position + 8),
            part._replace(position=-1),
            part._replace(last=Index(2)),
            part._replace(runs=(TermRun(Term(3), Index(3)),)),
            part._replace(runs=()),
            part._replace(prev=EntryId(Term(1), Index(2))),
            part._replace(prev=EntryId(Term(3), Index(1))),
            part._replace(prev_chain_crc=part.prev_chain_crc ^ 1),
            part._replace(size=part.size - 1),
            part._replace(parts=(data[:-1],)),
            part._replace(parts=(data[:-1],), size=part.size - 1),
            part._replace(parts=(data + b"\0",)),
            part._replace(parts=(data + b"\0",), size=part.size + 1),
            part._replace(parts=()),
        ):
            raises(RangeRejected, source.check_range, wrong)
        pieces = tuple(data[at : at + 7] for at in range(0, len(data), 7))
        assert source.check_range(part._replace(parts=pieces)).data == data

    def test_a_range_that_does_not_continue_this_log_is_rejected(self) -> None:
        """`first` must be the next index, and `prev` an entry of this log (S2)."""
        source, other = self._filled(1, 1, 2, 2), self._filled(2, 2)
        empty = self.make_log(FILE_SIZE)
        log = self.make_log(FILE_SIZE)
        ship(source.read_range(Index(0), Index(1), ALL), log, Index(0))
        part = source.read_range(Index(2), Index(3), ALL)
        for target, first in ((log, 3), (log, 1), (empty, 0), (other, 2)):
            raises(RangeRejected, ship, part, target, Index(first))
        assert [log.last.index, empty.last.index, other.last.index] == [1, -1, 1]
        ship(part, log, Index(2))
        assert log.last == source.last

    def test_another_checksum_at_the_same_id_is_damage(self) -> None:
        """R19: it is never a conflict, so no entry is truncated for it."""
        ours, theirs = self._filled(1, 1), self.make_log(FILE_SIZE)
        theirs.append([b"B" * 100, b"A" * 100, b"C" * 100], Term(1))
        raises(StoreDamaged, ship, theirs.read_range(Index(2), Index(2), ALL), ours, Index(2))
        raises(StoreDamaged, ship, theirs.read_range(Index(0), Index(2), ALL), ours, Index(2))
        assert ours.last.index == 1

    # -- durability -----------------------------------------------------------------------------

    def test_nothing_is_flushed_before_a_sync_is_finished(self) -> None:
        """`finish_sync` moves `flushed` to the last entry before `begin_sync` (D3, D4)."""
        log = self._filled(1, 1)
        assert log.flushed == NO_INDEX
        task = log.begin_sync()
        assert task is not None
        log.append([b"later"], Term(1))
        task.run()
        assert log.flushed == NO_INDEX
        assert log.finish_sync(task) == log.flushed == 1
        again = log.begin_sync()
        assert again is not None
        again.run()
        assert log.finish_sync(again) == 2
        assert log.begin_sync() is None

    def test_a_truncation_during_a_sync_lowers_what_it_covers(self) -> None:
        """Entries that were appended after the truncation need the next sync (D3)."""
        log = self._filled(1, 1, 1, 1)
        task = log.begin_sync()
        assert task is not None
        log.truncate_after(Index(1))
        log.append([b"other", b"other"], Term(2))
        task.run()
        assert log.finish_sync(task) <= 1
        last = log.begin_sync()
        assert last is not None
        last.run()
        assert log.finish_sync(last) == 3

    def test_truncation_lowers_what_is_flushed(self) -> None:
        """Entries appended in the place of flushed ones are not flushed (D3)."""
        log = self._filled(1, 1, 1)
        task = log.begin_sync()
        assert task is not None
        task.run()
        log.finish_sync(task)
        log.truncate_after(Index(0))
        assert log.flushed == 0
        log.append([b"other"], Term(2))
        assert log.flushed == 0

    # -- truncation -----------------------------------------------------------------------------

    def test_after_a_truncation_the_log_is_as_if_it_had_never_been_longer(self) -> None:
        """For each length: equal entries, positions and next append."""
        for last in range(-1, 24):
            log = self._filled(*[1] * 10, *[2] * 14, size=170)
            log.truncate_after(Index(last))
            fresh = self.make_log(FILE_SIZE)
            for number in range(last + 1):
                fresh.append([bytes([65 + number]) * 170], Term(1 if number < 10 else 2))
            assert log.last == fresh.last
            assert log.end_position == fresh.end_position  # R10: a blank at the end goes too
            assert log.term_runs() == fresh.term_runs()
            for each in (log, fresh):
                each.append([b"small", b"other" * 60], Term(3))
            assert list(log.entries(Index(0), log.last.index)) == list(
                fresh.entries(Index(0), fresh.last.index)
            )

    def test_truncating_at_the_end_changes_nothing(self) -> None:
        """A truncation to the last index keeps all entries."""
        log = self._filled(1, 1)
        log.truncate_after(Index(1))
        assert log.last.index == 1

    def test_what_is_committed_is_never_truncated(self) -> None:
        """`truncate_after` an index below the commit index raises AssertionError (S3)."""
        log = self._filled(1, 1, 1)
        log.save_commit(Index(1))
        raises(AssertionError, log.truncate_after, Index(0))
        log.truncate_after(Index(1))
        assert log.last.index == 1

    def test_commit_never_exceeds_the_end(self) -> None:
        """`save_commit` of an index that the log does not have raises AssertionError (W5)."""
        log = self._filled(1)
        raises(AssertionError, log.save_commit, Index(1))


class HardStateConformance:
    """Contract of `HardStateStore`."""

    def make_hard_state(self, state: HardState) -> HardStateStore:
        """Override: returns a new store that holds `state`."""
        raise NotImplementedError("override me: a new store that holds this state")

    def test_a_save_counts_when_it_is_finished(self) -> None:
        """`state` is the old one until `finish_save`, also after the task has run (D1)."""
        old = HardState(Term(3), None, 42)
        new = HardState(Term(4), NodeId("n1"), 42)
        store = self.make_hard_state(old)
        assert store.state == old
        task = store.begin_save(new)
        assert store.state == old
        task.run()
        assert store.state == old
        store.finish_save(task)
        assert store.state == new

    def test_a_save_that_did_not_run_does_not_count(self) -> None:
        """`finish_save` raises AssertionError (D1)."""
        store = self.make_hard_state(HardState(Term(3), None, 42))
        task = store.begin_save(HardState(Term(4), None, 42))
        raises(AssertionError, store.finish_save, task)

    def test_one_save_at_a_time(self) -> None:
        """A second `begin_save` raises AssertionError."""
        store = self.make_hard_state(HardState(Term(3), None, 42))
        store.begin_save(HardState(Term(4), None, 42))
        raises(AssertionError, store.begin_save, HardState(Term(5), None, 42))

    def test_a_term_never_goes_back(self) -> None:
        """`begin_save` with a lower term raises AssertionError (D1)."""
        store = self.make_hard_state(HardState(Term(3), None, 42))
        raises(AssertionError, store.begin_save, HardState(Term(2), None, 42))

    def test_votes_and_their_absence_are_told_apart(self) -> None:
        """No vote, an ASCII id, and an id with several bytes a letter."""
        for vote in (None, NodeId("n0"), NodeId("節点")):
            store = self.make_hard_state(HardState(Term(0), None, 1 << 63))
            state = HardState(Term(9), vote, 1 << 63)
            task = store.begin_save(state)
            task.run()
            store.finish_save(task)
            assert store.state == state
