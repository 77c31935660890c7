"""Mutants of `dledger.replica`, `dledger.producers` and `dledger.wire`."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch


def _replica(old: str, new: str) -> tuple[Patch, ...]:
    return (Patch("dledger.replica", old, new),)


def _producers(old: str, new: str) -> tuple[Patch, ...]:
    return (Patch("dledger.producers", old, new),)


REPLICA = (
    Mutant(
        "ack-before-commit",
        ("S8",),
        _replica(
            "        assert self.log.last.index == effect.last\n",
            "        assert self.log.last.index == effect.last\n"
            "        self._proposals.remove(proposal)\n"
            "        proposal.done(proposal, None)\n",
        ),
        tests=(
            "tests/dledger/test_replica.py::test_a_proposal_is_done_when_committed_and_applied",
        ),
    ),
    Mutant(
        "step-down-says-it-did-not-happen",
        ("S8",),
        _replica(
            "                unknown = OutcomeUnknown(\n",
            "                unknown = QueueFull(\n",
        ),
        tests=(
            "tests/dledger/test_replica.py::test_a_failed_sync_stops_the_replica_for_good[log]",
        ),
    ),
    Mutant(
        "pending-survives-step-down",
        ("S8",),
        _replica(
            "            pending, self._proposals = self._proposals, deque()\n",
            "            pending = ()\n",
        ),
        tests=(
            "tests/dledger/test_replica.py::test_a_failed_sync_stops_the_replica_for_good[log]",
        ),
    ),
    Mutant(
        "read-served-before-applied",
        ("S9",),
        _replica(
            "        if self.applied >= index:\n            ready(None)",
            "        if True:\n            ready(None)",
        ),
        seeds=20,
    ),
    Mutant(
        "sends-not-held-back",
        ("D1",),
        _replica("        if after <= self._hard_persisted:\n", "        if True:\n"),
        seeds=20,
    ),
    Mutant(
        "no-mark-before-a-vote",
        ("R1",),
        (
            Patch(
                "dledger.disk_work",
                "return self._log.begin_mark() if self._log.mark_deadline() is not None else None",
                "return None",
            ),
        ),
        seeds=10,
    ),
    Mutant(
        "failed-sync-is-forgotten",
        ("D5",),
        _replica(
            '            self._fail(f"the disk refused a {work.kind} sync: {error}")\n'
            "            return\n",
            "            work.task.done = True\n",
        ),
        tests=(
            "tests/dledger/test_replica.py::test_a_failed_sync_stops_the_replica_for_good[log]",
        ),
    ),
    Mutant(
        "range-not-checked-before-the-core",
        ("D7", "S10"),
        _replica(
            "message = _with_data(message, self.log.check_range(_received(message)))",
            "message = _with_data(message, _received(message))",
        ),
        tests=(
            "tests/dledger/test_replica.py::test_a_damaged_range_costs_its_connection_and_nothing_else",
        ),
    ),
)

PRODUCERS = (
    Mutant(
        "retries-are-not-recognised",
        ("R8", "S8"),
        _producers(
            "        if sequence == expected:\n            return _FRESH\n",
            "        if sequence <= expected:\n            return _FRESH\n",
        ),
        tests=("tests/dledger/test_producers.py::test_r8_a_duplicate_waits_for_its_original",),
    ),
    Mutant(
        "gap-is-taken",
        ("R8",),
        _producers(
            "            raise SequenceGap(producer, expected, sequence)\n",
            "            return _FRESH\n",
        ),
        tests=(
            "tests/dledger/test_producers.py::test_r8_a_gap_is_refused_so_that_a_refused_number_never_looks_old",
        ),
    ),
    Mutant(
        "duplicate-answered-before-its-original",
        ("R8",),
        _producers(
            "            self._wait_for(producer, stream, sequence + skip - 1),\n",
            "            NO_INDEX,\n",
        ),
        tests=("tests/dledger/test_producers.py::test_r8_a_duplicate_waits_for_its_original",),
    ),
    Mutant(
        "overlay-survives-step-down",
        ("R9",),
        _producers("        self._overlay.clear()\n", "        pass\n"),
        tests=(
            "tests/dledger/test_producers.py::test_r9_what_was_not_committed_is_forgotten_when_the_leadership_ends",
        ),
    ),
)

WIRE = (
    Mutant(
        "frame-checksum-ignored",
        ("D7",),
        (
            Patch(
                "dledger.wire",
                "if crc32(head, crc32(view[start : start + COVERED.size])) != crc:",
                "if False:",
            ),
        ),
        tests=(
            "tests/dledger/test_wire.py::test_every_flipped_bit_of_a_frame_is_noticed_or_is_log_data",
        ),
    ),
)
