"""Mutants of the judge itself: a judge that is wrong must be noticed.

C1 to C8 are those of docs/spec/chaos.md 5.2.

C9 to C12 are about acknowledgements in memory (chaos/checkers/levels.py), C13 and C14 about logs
whose beginning was deleted (chaos/checkers/beginnings.py), C15 to C21 about what readers are shown.

The golden anomalies kill most of them, or the second judge, which shares no code with the first.
"""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch

_GOLDEN = "tests/chaos/checkers/test_golden.py::test_named_as_it_is"
_AGREEMENT = "tests/chaos/checkers/test_agreement.py::test_broken_histories_get_one_verdict"
_JUDGEMENT = "tests/chaos/live/test_judgement.py::test"
_DEFERRED = "tests/chaos/checkers/test_deferred.py::test_named_as_it_is"

CHECKERS = (
    Mutant(
        "C1-unknown-operations-are-ignored",
        ("C1",),
        (
            Patch(
                "chaos.checkers.order",
                "done = ended + _unknown_appends(history, log)",
                "done = ended",
            ),
        ),
        tests=(_GOLDEN, _AGREEMENT),
        rows=("C1",),
    ),
    Mutant(
        "C2-the-last-operation-is-dropped",
        ("C2",),
        (
            Patch(
                "chaos.checkers.lost",
                "    for op in history:\n",
                "    for op in list(history)[:-1]:\n",
            ),
        ),
        tests=(_GOLDEN,),
        rows=("C2",),
    ),
    Mutant(
        "C3-only-counts-are-compared",
        ("C3",),
        (
            Patch(
                "chaos.checkers.replicas",
                "if list(base) == list(other):",
                "if len(base) == len(other):",
            ),
        ),
        tests=(_GOLDEN,),
        rows=("C3",),
    ),
    Mutant(
        "C4-unknown-is-taken-for-failed",
        ("C4",),
        (
            Patch(
                "chaos.checkers.doubled",
                "elif outcome[value] is Outcome.FAIL:",
                "elif outcome[value] is not Outcome.OK:",
            ),
        ),
        tests=(_GOLDEN, _AGREEMENT),
        rows=("C4",),
    ),
    Mutant(
        "C5-one-replica-is-skipped",
        ("C5",),
        (Patch("chaos.checkers.replicas", "for name in names[1:]:", "for name in names[1:-1]:"),),
        tests=(_GOLDEN,),
        rows=("C5",),
    ),
    Mutant(
        "C6-off-by-one",
        ("C6",),
        (
            Patch(
                "chaos.checkers.order",
                "        if teller is not None and reached < limit:",
                "        if teller is not None and reached < limit - 1:",
            ),
        ),
        tests=(_GOLDEN, _AGREEMENT),
        rows=("C6",),
    ),
    Mutant(
        "C7-no-real-time-edge",
        ("C7",),
        (
            Patch(
                "chaos.checkers.order",
                "by_end[finished].completed < op.invoked:",
                "by_end[finished].completed < op.invoked and False:",
            ),
        ),
        tests=(_GOLDEN, _AGREEMENT),
        rows=("C7",),
    ),
    Mutant(
        "C8-a-check-that-breaks-is-no-finding",
        ("C8",),
        (
            Patch(
                "chaos.checkers.verdict",
                "    for log in _different(logs):\n",
                "    import contextlib\n    for log in _different(logs):\n"
                "     with contextlib.suppress(Exception):\n",
            ),
        ),
        tests=(
            "tests/chaos/checkers/test_checkers.py::test_a_check_that_breaks_is_told_and_not_passed_over",
        ),
        rows=("C8",),
    ),
    Mutant(
        "C9-a-blackout-excuses-every-level",
        ("C9",),
        (
            Patch(
                "chaos.checkers.levels",
                "return op.level is Level.IN_MEMORY and op.outcome is Outcome.OK",
                "return op.kind is Kind.APPEND and op.outcome is Outcome.OK",
            ),
        ),
        tests=(f"{_GOLDEN}[on-disk-and-gone-in-a-blackout]",),
    ),
    Mutant(
        "C10-in-memory-is-excused-without-a-blackout",
        ("C10",),
        (
            Patch(
                "chaos.checkers.levels",
                "        if op.invoked <= cut.ended\n"
                "        and op.completed >= max(known_since, cut.began - UNSYNCED_SECONDS_MAX)\n",
                "        if op.completed >= known_since\n",
            ),
        ),
        tests=(
            f"{_GOLDEN}[in-memory-long-before-the-blackout]",
            f"{_GOLDEN}[in-memory-after-the-blackout]",
        ),
    ),
    Mutant(
        "C11-a-blackout-may-take-from-the-middle",
        ("C11",),
        (
            Patch(
                "chaos.checkers.levels",
                "            known_since = max(known_since, op.invoked)\n"
                "            ends[op.log] = max(ends.get(op.log, -1), op.offset)\n",
                "            pass\n",
            ),
        ),
        tests=(
            f"{_GOLDEN}[a-hole-below-what-was-kept]",
            f"{_GOLDEN}[gone-though-another-queue-has-what-came-later]",
            f"{_GOLDEN}[gone-though-a-neighbour-above-it-is-there]",
        ),
    ),
    Mutant(
        "C12-readers-must-see-what-is-in-memory",
        ("C12",),
        (
            Patch(
                "chaos.checkers.order",
                "if reached > shown and other.level is Level.ON_DISK:",
                "if reached > shown:",
            ),
        ),
        tests=(f"{_GOLDEN}[readers-see-it-later-than-its-producer]",),
    ),
    Mutant(
        "C13-whatever-is-gone-from-the-beginning-was-deleted",
        ("C13",),
        (
            Patch(
                "chaos.checkers.beginnings",
                "if op.kind is Kind.APPEND and 0 <= op.position < begins]",
                "if op.kind is Kind.APPEND]",
            ),
        ),
        tests=(
            f"{_GOLDEN}[lost-right-behind-the-beginning]",
            f"{_GOLDEN}[lost-where-nobody-told-the-address]",
        ),
    ),
    Mutant(
        "C14-what-was-deleted-counts-as-lost",
        ("C14",),
        (
            Patch(
                "chaos.checkers.beginnings",
                "    return [*sorted(told.items()), *log]\n",
                "    return log\n",
            ),
        ),
        tests=(f"{_GOLDEN}[deleted-and-no-longer-there]",),
    ),
    Mutant(
        "C15-what-a-poll-showed-need-not-be-read",
        ("C15",),
        (
            Patch(
                "chaos.checkers.order",
                "            if reached > shown and other.level is Level.ON_DISK:\n",
                "            if reached > shown and other.kind is not Kind.POLL:\n",
            ),
        ),
        tests=(f"{_GOLDEN}[read-behind-what-a-poll-had-shown]",),
    ),
    Mutant(
        "C16-a-poll-may-show-a-message-anywhere",
        ("C16",),
        (Patch("chaos.checkers.seen", "elif (offset, value) not in places:", "elif False:"),),
        tests=(f"{_GOLDEN}[poll-shows-a-message-at-a-second-place]",),
    ),
    Mutant(
        "C17-the-end-of-a-queue-needs-no-reader",
        ("C17",),
        (
            Patch(
                "chaos.checkers.ends",
                "if offset <= shown or append is None:",
                "if append is None or append:",
            ),
        ),
        tests=(
            f"{_JUDGEMENT}_what_lies_behind_all_that_was_shown_is_not_valid",
            f"{_JUDGEMENT}_a_reader_that_was_told_too_early_that_nothing_follows_is_an_anomaly",
        ),
    ),
    Mutant(
        "C18-a-queue-may-have-holes",
        ("C18",),
        (Patch("chaos.checkers.offsets", "if offset != wanted:", "if offset < wanted:"),),
        tests=(f"{_JUDGEMENT}_a_queue_counts_its_messages",),
    ),
    Mutant(
        "C19-what-stands-in-a-log-was-shown",
        ("C19",),
        (
            Patch(
                "chaos.checkers.delayed",
                "if at is not None and at <= latest:",
                "if seen.has(op.value) and (at is None or at <= latest):",
            ),
        ),
        tests=(f"{_DEFERRED}[delayed-in-the-log-only]",),
    ),
    Mutant(
        "C20-a-half-that-nobody-asked-about-is-forgotten",
        ("C20",),
        (Patch("chaos.checkers.transactions", "not (of_half or op.due >= 0)", "not of_half"),),
        tests=(f"{_DEFERRED}[commit-when-asked-and-nobody-asked]",),
    ),
    Mutant(
        "C21-an-end-that-nobody-can-see-is-left-out",
        ("C21",),
        (
            Patch(
                "chaos.checkers.blind",
                "            yield replace(op, value=held[op.offset - 1])\n",
                "            continue\n",
            ),
        ),
        tests=(f"{_JUDGEMENT}_an_end_that_nobody_can_see_is_judged",),
    ),
)
