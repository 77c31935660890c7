"""The bugs that docs/spec/chaos.md 5.2 wants seeded, with the killers of each.

Arenas are those of the spec: D simulator, P power loss on a real file system, R real processes
under faults, U scripted scenario, F a crash at each step, C the checkers' own tests. `instead`: for
an arena that the spec names and that has no killer here, the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from chaos.mutants.mutant import Mutant

_POINTS = "the simulator's own failpoints stop nodes there: its seeds (D) draw them"
_RARE = "no violation in 100 seeds; the script plays the one schedule that shows it"
_TWIN = "the same code runs in both arenas, and seeds or a test show it within a second"


@dataclass(frozen=True, slots=True)
class SpecRow:
    """One bug. `killers`: letters of arenas, as the spec's table has them."""

    number: str
    bug: str
    killers: str
    instead: dict[str, str] = field(default_factory=dict)


ROWS: tuple[SpecRow, ...] = (
    SpecRow("1", "vote not persisted or synced before the reply", "DP"),
    SpecRow("2", "term not persisted", "DP"),
    SpecRow("3", "follower acknowledges an append before fsync", "DPF", {"F": _POINTS}),
    SpecRow("4", "leader counts its own entry before fsync", "D"),
    SpecRow(
        "5", "group commit acknowledges the batch after the first file only", "PF", {"F": _POINTS}
    ),
    SpecRow("6", "no directory fsync after a file is made or renamed", "P"),
    SpecRow(
        "7",
        "vote file written in place, torn",
        "PU",
        {
            "P": "a loop disk tears no sector; the disk of test_crash.py does, at each operation",
            "U": "test_crash.py is the script",
        },
    ),
    SpecRow("8", "fsync error ignored or retried as success", "R", {"R": _TWIN}),
    SpecRow("9", "older terms committed by counting", "DU", {"D": _RARE}),
    SpecRow("10", "truncates although there is no conflict", "DU"),
    SpecRow("11", "no truncation on conflict", "DU"),
    SpecRow("12", "truncation not durable before a new acknowledgement", "PD"),
    SpecRow("13", "prevLogTerm not checked", "DU"),
    SpecRow("14", "vote ignores how up to date a log is, or compares lengths only", "DU"),
    SpecRow("15", "second vote in a term", "D"),
    SpecRow("16", "stale votes or stale append replies counted", "D", {"D": _RARE}),
    SpecRow("17", "majority off by one; the old configuration's quorum", "D"),
    SpecRow("18", "commit index is leaderCommit without min(last new entry)", "D"),
    SpecRow("19", "match index taken from the follower's last index", "D"),
    SpecRow("20", "leader keeps its role on seeing a higher term", "D"),
    SpecRow("21", "deposed leader serves reads", "DR", {"R": _TWIN}),
    SpecRow("22", "ReadIndex before the own no-op is committed", "D"),
    SpecRow("23", "read confirmation counts rejections or older rounds", "D", {"D": _RARE}),
    SpecRow(
        "24",
        "lease read trusts the clock",
        "D",
        {"D": "92 seeds of --lease-reads show nothing; test_lease.py scripts each clock"},
    ),
    SpecRow("25", "dispatched or consumed before commit", "R", {"R": _TWIN}),
    SpecRow("26", "client acknowledged before commit", "DR", {"R": _TWIN}),
    SpecRow("27", "pending operation acknowledged with another term's entry", "U"),
    SpecRow("28", "a numbered retry is appended twice", "R", {"R": _TWIN}),
    SpecRow("29", "dedup table not in the snapshot, or lost on leader change", "DR", {"R": _TWIN}),
    SpecRow(
        "30",
        "snapshot beyond applied, or installed over a newer log",
        "DU",
        {"D": "40 seeds of --snapshots show nothing; the tests script the orders"},
    ),
    SpecRow("31", "roll of a file loses or repeats the entry at the boundary", "FP"),
    SpecRow(
        "32",
        "recovery drops the log at the first bad CRC, then votes",
        "R",
        {"R": "the test rots the same byte of a log that is opened; no cluster shows it more"},
    ),
    SpecRow("33", "recovery accepts a torn tail", "FU"),
    SpecRow("34", "frame CRC not checked on the wire", "R", {"R": _TWIN}),
    SpecRow("35", "two membership changes at once; no pre-vote", "D"),
    SpecRow("36", "follower read goes back after failover", "D"),
    SpecRow(
        "37",
        "consumer offset past the tail after power loss",
        "P",
        {"P": "chance decides if a checkpoint overtakes the log; the test makes just that disk"},
    ),
    SpecRow(
        "38",
        "heartbeats go on while the disk hangs",
        "R",
        {"R": "a hang is told by a clock, which is the test's own here; L5 has 15 such mutants"},
    ),
    SpecRow("39", "election timer not randomised", "D"),
    SpecRow("C1", "checker ignores operations of unknown outcome", "C"),
    SpecRow("C2", "checker drops the last operation", "C"),
    SpecRow("C3", "checker compares counts only", "C"),
    SpecRow("C4", "checker takes unknown for failed", "C"),
    SpecRow("C5", "checker skips one replica", "C"),
    SpecRow("C6", "checker's window is off by one", "C"),
    SpecRow("C7", "checker has no real-time edge", "C"),
    SpecRow("C8", "checker swallows exceptions", "C"),
)
NUMBERS = tuple(row.number for row in ROWS)

_PLACES = (
    ("tests/chaos/mutants/test_power.py", "P"),
    ("tests/chaos/live/", "R"),
    ("tests/chaos/checkers/", "C"),
    ("tests/dledger/log/test_crash.py", "F"),
)


def arenas_of(mutant: Mutant) -> str:
    """Letters of the arenas in which the mutant has a killer."""
    found = {"D", *tests_by_arena(mutant)} if mutant.seeds else set(tests_by_arena(mutant))
    return "".join(letter for letter in "DPRFUC" if letter in found)


def tests_by_arena(mutant: Mutant) -> dict[str, tuple[str, ...]]:
    """The mutant's tests, by the letter of their arena; one of each letter must notice."""
    found: dict[str, tuple[str, ...]] = {}
    for test in mutant.tests:
        letter = next((letter for place, letter in _PLACES if test.startswith(place)), "U")
        found[letter] = (*found.get(letter, ()), test)
    return found


def mutants_of(row: SpecRow, mutants: Sequence[Mutant]) -> list[Mutant]:
    """The mutants that name this row of docs/spec/chaos.md 5.2."""
    return [mutant for mutant in mutants if row.number in mutant.rows]


def missing_arenas(row: SpecRow, mutants: Sequence[Mutant]) -> list[str]:
    """Letters that the spec names and no mutant of the row is killed in."""
    had = {letter for mutant in mutants_of(row, mutants) for letter in arenas_of(mutant)}
    return [letter for letter in row.killers if letter not in had]
