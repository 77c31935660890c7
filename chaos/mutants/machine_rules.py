"""Mutants of replicated state machines: applied once, in a session, and locks by the log's time."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch

_SESSIONS = "tests/dledger/machine/test_sessions.py::"
_NODE = "tests/dledger/machine/test_node.py::"
_AGREEMENT = "tests/dledger/machine/test_agreement.py::"
_OBJECTS = "tests/dledger/objects/test_objects.py::"


def _one(module: str, old: str, new: str) -> tuple[Patch, ...]:
    return (Patch(module, old, new),)


MACHINES = (
    Mutant(
        "a-repeated-command-is-applied-again",
        ("R8",),
        _one("dledger.machine.sessions", "if sequence in known.results:", "if False:"),
        tests=(_NODE + "test_what_is_repeated_is_applied_once",),
    ),
    Mutant(
        "a-forgotten-command-is-applied-late",
        ("R8",),
        _one(
            "dledger.machine.sessions",
            "if not known.lowest <= sequence < known.lowest + WINDOW:",
            "if sequence >= known.lowest + WINDOW:",
        ),
        tests=(_SESSIONS + "test_what_its_caller_has_forgotten_is_not_applied_late",),
    ),
    Mutant(
        "a-command-without-its-session-is-applied",
        ("R8",),
        _one(
            "dledger.machine.sessions",
            "            return Verdict.NO_SESSION\n",
            "            return Verdict.APPLY\n",
        ),
        tests=(_SESSIONS + "test_without_its_session_a_command_is_not_applied",),
    ),
    Mutant(
        "an-idle-session-stays-for-ever",
        ("R8",),
        _one(
            "dledger.machine.sessions",
            "time_ms - oldest.used_ms > self._idle_ms_max",
            "False",
        ),
        tests=(_SESSIONS + "test_an_idle_session_goes_by_the_logs_time",),
    ),
    Mutant(
        "a-node-whose-results-differ-goes-on",
        ("S10",),
        _one(
            "dledger.machine.agreement", "            if most != own:\n", "            if False:\n"
        ),
        tests=(_AGREEMENT + "test_one_that_differs_stops_where_it_differs_first",),
    ),
    Mutant(
        "a-lock-is-granted-before-its-lease-is-over",
        ("R8",),
        _one("dledger.objects.lock", "held.until_ms <= now", "held.until_ms <= now + 10"),
        tests=(_OBJECTS + "test_leases_end_by_the_logs_time",),
    ),
    Mutant(
        "the-next-holder-of-a-lock-gets-the-same-token",
        ("R8",),
        _one("dledger.objects.lock", "entry.index if held is None else held.token", "1"),
        tests=(_OBJECTS + "test_a_lock_is_held_once_and_its_tokens_rise",),
    ),
)
