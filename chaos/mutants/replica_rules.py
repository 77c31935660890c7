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
        seeds=20,
        tests=("tests/dledger/test_replica.py",),
    ),
    Mutant(
        "step-down-says-it-did-not-happen",
        ("S8",),
        _replica(
            "                unknown = OutcomeUnknown(\n",
            "                unknown = QueueFull(\n",
        ),
        seeds=20,
        tests=("tests/dledger/test_replica.py",),
    ),
    Mutant(
        "pending-survives-step-down",
        ("S8",),
        _replica(
            "            pending, self._proposals = self._proposals, deque()\n",
            "            pending = ()\n",
        ),
        seeds=20,
        tests=("tests/dledger/test_replica.py",),
    ),
    Mutant(
        "read-served-before-applied",
        ("S9",),
        _replica(
            "        if self.applied >= index:\n            ready(None)",
            "        if True:\n            ready(None)",
        ),
        seeds=20,
        tests=("tests/dledger/test_replica.py",),
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
                "mark = log.begin_mark() if log.mark_deadline() is not None else None",
                "mark = None",
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
        seeds=30,
        tests=("tests/dledger/test_replica.py",),
    ),
    Mutant(
        "range-not-checked-before-the-core",
        ("D7", "S10"),
        _replica(
            "message = replace(message, data=self.log.check_range(_received(message)))",
            "message = replace(message, data=_received(message))",
        ),
        tests=("tests/dledger/test_replica.py",),
        seeds=40,
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
        seeds=20,
        tests=("tests/dledger/test_producers.py",),
    ),
    Mutant(
        "gap-is-taken",
        ("R8",),
        _producers(
            "            raise SequenceGap(producer, expected, sequence)\n",
            "            return _FRESH\n",
        ),
        tests=("tests/dledger/test_producers.py",),
    ),
    Mutant(
        "duplicate-answered-before-its-original",
        ("R8",),
        _producers(
            "            self._wait_for(producer, stream, sequence + skip - 1),\n",
            "            NO_INDEX,\n",
        ),
        seeds=20,
        tests=("tests/dledger/test_producers.py",),
    ),
    Mutant(
        "overlay-survives-step-down",
        ("R9",),
        _producers("        self._overlay.clear()\n", "        pass\n"),
        seeds=20,
        tests=("tests/dledger/test_producers.py",),
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
        tests=("tests/dledger/test_wire.py",),
        seeds=40,
    ),
)
