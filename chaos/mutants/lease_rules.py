"""Mutants of `dledger.core`: reads by a lease (lease.py)."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch

_TESTS = "tests/dledger/core/test_lease.py::"


def _mutant(
    name: str, module: str, old: str, new: str, test: str, rows: tuple[str, ...] = ()
) -> Mutant:
    patch = Patch(f"dledger.core.{module}", old, new)
    return Mutant(name, ("S9",), (patch,), tests=(_TESTS + test,), rows=rows)


LEASES = (
    _mutant(
        "leases-without-a-margin-for-drift",
        "lease",
        "reply.promise * state.config.drift_factor",
        "reply.promise",
        "test_clocks_that_drift_as_far_as_they_may_and_a_jump_too_small_to_be_seen",
        rows=("24",),
    ),
    _mutant(
        "a-voter-promises-as-long-as-it-keeps",
        "config",
        "return self.lease - self.clock_step_max",
        "return self.lease",
        "test_clocks_that_drift_as_far_as_they_may_and_a_jump_too_small_to_be_seen",
    ),
    _mutant(
        "a-lease-counts-from-the-answer",
        "lease",
        "    until = sent_at +",
        "    until = state.now +",
        "test_the_lease_counts_from_when_the_round_was_sent",
    ),
    _mutant(
        "a-lease-outlives-an-appointment",
        "transfer",
        "        state.lease.given_up = True",
        "        state.lease.given_up = False",
        "test_who_appoints_a_successor_has_no_lease_any_more",
    ),
    _mutant(
        "a-restart-forgets-its-promise",
        "leasing_node",
        "        lease.keep(self.state)\n",
        "",
        "test_a_node_that_starts_keeps_a_promise_that_it_may_have_given",
    ),
    _mutant(
        "a-broken-connection-ends-a-promise",
        "election",
        '    state.heard_leader_at = float("-inf")\n',
        '    state.heard_leader_at = state.promised_until = float("-inf")\n',
        "test_a_broken_connection_takes_no_promise_back",
    ),
    _mutant(
        "a-promise-is-not-kept",
        "election",
        "(state.leader_is_alive() or state.has_promised())",
        "state.leader_is_alive()",
        "test_a_broken_connection_takes_no_promise_back",
    ),
    _mutant(
        "a-clock-that-jumps-ends-a-promise",
        "leasing_node",
        "            lease.jumped_ahead(state, step)\n",
        "            pass\n",
        "test_a_voter_whose_clock_jumps_keeps_its_promise",
        rows=("24",),
    ),
    _mutant(
        "a-lease-goes-on-when-the-clock-runs-back",
        "leasing_node",
        "            lease.ran_back(state)\n            effects",
        "            effects",
        "test_a_leader_whose_clock_runs_back_has_no_lease",
        rows=("24",),
    ),
    _mutant(
        "a-clock-that-ran-back-tells-when-rounds-were-sent",
        "leasing_node",
        "            lease.ran_back(state)  # what",
        "            pass  # what",
        "test_what_is_sent_by_a_clock_that_ran_back_is_worth_nothing",
    ),
    _mutant(
        "a-lease-before-the-noop",
        "lease",
        "state.lease.given_up or state.commit < state.noop_index",
        "state.lease.given_up",
        "test_no_lease_before_the_first_entry_of_the_term_is_committed",
    ),
    _mutant(
        "a-lease-by-whoever-promised-before-the-group-changed",
        "lease",
        "return state.now < agreed(until, state.quorum)",
        "return state.now < agreed(until, state.initial.quorum)",
        "test_the_majority_is_one_of_the_group_in_force",
    ),
)
