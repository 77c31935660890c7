"""Mutants of replicated state machines: applied once, in a session, and locks by the log's time."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import one_patch

_SESSIONS = "tests/dledger/machine/test_sessions.py::"
_SIMULATED = "tests/chaos/testing/test_simulated.py::test_an_object_is_right_under_faults"
_RESULTS = "tests/dledger/machine/test_results.py::"
_RUNS = "tests/dledger/machine/test_runs.py::"
_SENDING = "tests/dledger/machine/test_sending.py::"
_LATE = "tests/dledger/machine/test_late.py::"
_NODE = "tests/dledger/machine/test_node.py::"
_AGREEMENT = "tests/dledger/machine/test_agreement.py::"
_KV_LEASES = "tests/dledger/objects/test_kv_model.py::"
_KV_LEASES += "test_leases_after_a_restart_and_what_a_refusal_leaves"
_OBJECTS = "tests/dledger/objects/test_objects.py::"


MACHINES = (
    Mutant(
        "a-repeated-command-is-applied-again",
        ("R8",),
        one_patch("dledger.machine.sessions", "if sequence in known.results:", "if False:"),
        tests=(_NODE + "test_what_is_repeated_is_applied_once",),
    ),
    Mutant(
        "a-run-of-commands-is-applied-again",
        ("R8",),
        one_patch(
            "dledger.machine.sessions",
            "if not is_in_window or not known.results.keys().isdisjoint(sequences):",
            "if not is_in_window:",
        ),
        tests=(_RUNS + "test_what_is_applied_does_not_depend_on_how_entries_come",),
    ),
    Mutant(
        "a-run-that-its-caller-has-forgotten-is-applied",
        ("R8",),
        one_patch(
            "dledger.machine.sessions",
            "least <= sequences.start and sequences.stop <= least + WINDOW",
            "sequences.stop <= least + WINDOW",
        ),
        tests=(_RUNS + "test_a_run_with_one_that_is_not_new_is_looked_at_one_by_one",),
    ),
    Mutant(
        "a-run-has-commands-of-another-session",
        ("R8",),
        one_patch(
            "dledger.machine.entries",
            "times.count(time_ms) == sessions.count(session) == count",
            "times.count(time_ms) == count",
        ),
        tests=(_RUNS + "test_a_run_ends_before_what_its_proposal_did_not_bring",),
    ),
    Mutant(
        "a-command-is-sent-from-inside-an-event-of-the-log",
        ("R27",),
        one_patch("dledger.machine.sending", " and not replica.in_event", ""),
        tests=(_SENDING + "test_a_command_from_inside_an_event_of_the_log_waits_for_its_end",),
    ),
    Mutant(
        "a-forgotten-command-is-applied-late",
        ("R8",),
        one_patch(
            "dledger.machine.sessions",
            "if not known.lowest <= sequence < known.lowest + WINDOW:",
            "if sequence >= known.lowest + WINDOW:",
        ),
        tests=(_SESSIONS + "test_what_its_caller_has_forgotten_is_not_applied_late",),
    ),
    Mutant(
        "a-command-without-its-session-is-applied",
        ("R8",),
        one_patch(
            "dledger.machine.sessions",
            "            return Verdict.NO_SESSION\n",
            "            return Verdict.APPLY\n",
        ),
        tests=(_SESSIONS + "test_without_its_session_a_command_is_not_applied",),
    ),
    Mutant(
        "an-idle-session-stays-for-ever",
        ("R8",),
        one_patch(
            "dledger.machine.sessions",
            "time_ms - oldest.used_ms > self._idle_ms_max",
            "False",
        ),
        tests=(_SESSIONS + "test_an_idle_session_goes_by_the_logs_time",),
    ),
    Mutant(
        "room-for-results-is-made-where-a-batch-ends",
        ("R8",),
        one_patch(
            "dledger.machine.applier",
            "            if index % SHRINK_EVERY == 0:\n                self._flush(leads)\n",
            "            if True:\n",
        ),
        tests=(_RESULTS + "test_batches_make_no_difference_to_what_is_kept",),
    ),
    Mutant(
        "a-result-that-was-given-up-is-applied-again",
        ("R8",),
        one_patch(
            "dledger.machine.sessions",
            "                    session.results[sequence] = NOT_KEPT\n",
            "                    session.results.pop(sequence)\n                    return\n",
        ),
        tests=(_RESULTS + "test_results_go_before_sessions_and_the_idle_first",),
    ),
    Mutant(
        "a-leader-without-a-machine-is-silent",
        ("R8",),
        one_patch(
            "dledger.runtime.transport",
            "self._listener.forwarded or self._no_machine",
            "self._listener.forwarded or (lambda *_: None)",
        ),
        tests=(_RESULTS + "test_a_leader_without_a_machine_says_so_at_once",),
    ),
    Mutant(
        "a-node-whose-results-differ-goes-on",
        ("S10",),
        one_patch(
            "dledger.machine.agreement", "            if most != own:\n", "            if False:\n"
        ),
        tests=(_AGREEMENT + "test_one_that_differs_stops_where_it_differs_first",),
    ),
    Mutant(
        "a-node-whose-state-differs-goes-on",
        ("S10",),
        one_patch(
            "dledger.machine.applier",
            "                    self._compare_state(index, leads)\n",
            "",
        ),
        tests=(_NODE + "test_the_node_whose_state_rots_stops_although_its_results_agree",),
    ),
    Mutant(
        "a-state-is-compared-in-the-middle-of-a-window",
        ("S10",),
        one_patch(
            "dledger.machine.applier",
            "                    self._flush(leads)\n                    self._compare_state",
            "                    self._compare_state",
        ),
        tests=(_RESULTS + "test_batches_make_no_difference_to_the_checksums_of_states",),
    ),
    Mutant(
        "a-state-is-taken-for-the-results-of-its-window",
        ("S10",),
        one_patch("dledger.machine.agreement", "of_state = ~(", "of_state = ("),
        tests=(_AGREEMENT + "test_a_state_that_differs_stops_its_node_although_results_agree",),
    ),
    Mutant(
        "a-lock-is-granted-before-its-lease-is-over",
        ("R8",),
        one_patch("dledger.objects.lock", "held.until_ms <= now", "held.until_ms <= now + 10"),
        tests=(_OBJECTS + "test_leases_end_by_the_logs_time",),
    ),
    Mutant(
        "the-next-holder-of-a-lock-gets-the-same-token",
        ("R8",),
        one_patch("dledger.objects.lock", "entry.index if held is None else held.token", "1"),
        tests=(_OBJECTS + "test_a_lock_is_held_once_and_its_tokens_rise",),
    ),
    Mutant(
        "a-lease-is-forgotten-at-restore",
        ("R8",),
        one_patch(
            "dledger.objects.kv_machine",
            "{number: _Lease(*lease) for number, lease in found}",
            "{number: _Lease(lease[0], 1 << 60) for number, lease in found}",
        ),
        tests=(_KV_LEASES,),
    ),
    Mutant(
        "keys-stay-when-their-lease-ends-after-a-restart",
        ("R8",),
        one_patch(
            "dledger.objects.kv_machine",
            "            self._leased[item.lease].add(item.key)\n",
            "            pass\n",
        ),
        tests=(_KV_LEASES,),
    ),
    Mutant(
        "a-key-that-changed-hands-goes-with-its-old-lease",
        ("R8",),
        one_patch(
            "dledger.objects.kv_machine",
            "            self._let_go(before)\n",
            "            pass\n",
        ),
        tests=(_KV_LEASES,),
    ),
    Mutant(
        "half-a-transaction-is-done-when-a-lease-has-ended",
        ("R8",),
        one_patch(
            "dledger.objects.kv_machine",
            "arguments[2] and arguments[2] not in self._leases.values:",
            "arguments[2] not in (0, *self._leases.values, *range(9)):",
        )
        + one_patch(
            "dledger.objects.kv_machine",
            "        if lease:\n            self._leased[lease].add(key)\n",
            "        if lease:\n            self._leased.setdefault(lease, set()).add(key)\n",
        ),
        tests=(_KV_LEASES,),
    ),
    Mutant(
        "history-is-whole-again-after-a-restart",
        ("R8",),
        one_patch(
            "dledger.objects.kv_machine",
            "self.revision, self.compacted = of_json",
            "self.revision, _ = of_json",
        ),
        tests=(_KV_LEASES,),
    ),
    Mutant(
        "an-absent-key-has-the-value-that-is-expected",
        ("R8",),
        one_patch(
            "dledger.objects.kv_machine", 'return relation == "!="', 'return relation == "="'
        ),
        tests=(_KV_LEASES,),
    ),
    Mutant(
        "the-logs-time-is-lost-with-a-restored-state",
        ("R8",),
        one_patch(
            "dledger.machine.applier",
            "self.applied, self._time_ms = head.index, head.time_ms\n",
            "self.applied = head.index\n",
        ),
        tests=(
            "tests/dledger/machine/test_results.py::"
            "test_the_logs_time_does_not_go_back_behind_a_restored_state",
        ),
    ),
    Mutant(
        "sessions-are-lost-with-a-restored-state",
        ("R8",),
        one_patch(
            "dledger.machine.given",
            "        sessions.load(head.sessions)\n",
            "",
        ),
        tests=(_SIMULATED,),
    ),
    Mutant(
        "the-number-of-a-late-command-is-not-held-back",
        ("R8",),
        one_patch(
            "dledger.machine.outstanding",
            "        return min([otherwise, *(late.sequence for late in self.waiting())])\n",
            "        return otherwise\n",
        ),
        tests=(_LATE + "test_it_holds_the_lowest_number_back_while_it_has_no_result",),
    ),
    Mutant(
        "a-late-command-outlives-a-session-that-a-state-has-lost",
        ("R8",),
        one_patch(
            "dledger.machine.proposer",
            "            elif gone and late.one.maybe:\n",
            "            elif False:\n",
        ),
        tests=(_LATE + "test_a_state_that_lost_its_session_leaves_it_unknown",),
    ),
)
