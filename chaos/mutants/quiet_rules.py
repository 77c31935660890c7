"""Mutants of groups that fall silent: `dledger.core.quiet`, `hosts`, and the hosts' beats (R30)."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch

_TESTS = "tests/dledger/core/test_quiet.py::"
_LATE = "tests/dledger/core/test_quiet_late.py::"
_BEATS = "tests/dledger/replica/test_beats.py::"


#: A text and another one instead.
Change = tuple[str, str]


def _mutant(
    name: str,
    module: str,
    old: str,
    new: str,
    test: str,
    rules: tuple[str, ...] = ("R30",),
    *more: Change,
) -> Mutant:
    patches = tuple(Patch(f"dledger.{module}", *change) for change in ((old, new), *more))
    return Mutant(name, rules, patches, tests=(test,))


QUIET = (
    _mutant(
        "a-follower-that-lacks-entries-is-quiet",
        "core.quiet",
        "        and _has_all(state, message)\n",
        "",
        _TESTS + "test_a_follower_that_lacks_something_is_not_quiet",
    ),
    _mutant(
        "a-follower-is-quiet-before-its-disk-has-all",
        "core.quiet",
        "return whole and state.flushed == state.log.last.index",
        "return whole",
        _TESTS + "test_a_follower_that_lacks_something_is_not_quiet",
    ),
    _mutant(
        "silence-without-hosts",
        "core.quiet",
        "    if state.watched is None:\n        return\n",
        "",
        _TESTS + "test_without_hosts_no_group_is_quiet",
        ("R30",),
        ("return state.watched is not None and peer in state.watched", "return True"),
    ),
    _mutant(
        "silence-beside-leases",
        "core.quiet",
        "elsewhere or state.config.lease_reads or",
        "elsewhere or",
        _TESTS + "test_a_group_with_lease_reads_is_never_quiet",
        ("R30", "S9"),
        ("(state.config.lease_reads or state.has_promised() or state.asked_reads)", "False"),
    ),
    _mutant(
        "a-quiet-leader-serves-reads",
        "core.reads",
        "    state.reads_by_index += 1\n",
        "    if state.asked_quiet:\n"
        "        _serve(state, PendingRead(read_id, origin, state.commit, 0))\n"
        "        return\n"
        "    state.reads_by_index += 1\n",
        _TESTS + "test_a_read_of_a_quiet_leader_is_served_by_a_round_that_begins_with_it",
        ("R30", "S9"),
    ),
    _mutant(
        "a-lost-host-wakes-no-follower",
        "core.hosts",
        "        state.quiet = False\n        election.leader_disconnected(state, event.spread)\n",
        "        pass\n",
        _TESTS + "test_when_the_leaders_host_is_lost_the_others_elect_soon",
    ),
    _mutant(
        "a-lost-majority-of-hosts-wakes-no-leader",
        "core.hosts",
        "(not enough or not came",
        "(not came",
        _TESTS + "test_a_leader_without_a_majority_of_hosts_wakes_and_steps_down",
    ),
    _mutant(
        "all-groups-stand-at-once",
        "core.hosts",
        "election.leader_disconnected(state, event.spread)",
        "election.leader_disconnected(state)",
        _TESTS + "test_many_groups_do_not_stand_in_the_same_moment",
    ),
    _mutant(
        "a-host-that-is-back-wakes-no-leader",
        "core.hosts",
        "(not enough or not came.isdisjoint(state.progress))",
        "not enough",
        _TESTS + "test_a_host_that_is_down_leaves_the_others_groups_quiet_until_it_is_back",
    ),
    _mutant(
        "silence-counts-against-a-leader-that-wakes",
        "core.quiet",
        "        state.quorum_at = state.heartbeat_deadline = state.now\n",
        "        state.heartbeat_deadline = state.now\n",
        _TESTS + "test_a_quiet_leader_is_not_deposed_for_what_was_not_said",
        ("R30", "L1"),
        (
            "                progress.heard_at = progress.progress_at = state.now\n",
            "                pass\n",
        ),
    ),
    _mutant(
        "a-follower-that-wakes-tells-no-leader",
        "core.quiet",
        "    if state.leader is not None:\n",
        "    if False:\n",
        _TESTS + "test_a_follower_that_is_asked_for_a_vote_wakes_its_leader_and_refuses",
    ),
    _mutant(
        "a-quiet-follower-gives-its-vote-away",
        "core.quiet",
        "    state.heard_leader_at = state.now\n",
        '    state.heard_leader_at = float("-inf")\n',
        _TESTS + "test_a_follower_that_is_asked_for_a_vote_wakes_its_leader_and_refuses",
        ("R30", "L1"),
    ),
    _mutant(
        "a-group-whose-connection-ends-stays-quiet",
        "core.hosts",
        "            election.leader_disconnected(state)\n",
        "            pass\n",
        _TESTS + "test_a_connection_of_its_own_that_ends_wakes_a_group",
        ("R30", "L1"),
    ),
    _mutant(
        "a-leader-that-gives-up-leaves-its-followers-quiet",
        "core.leading",
        "        state.broadcast()  # who is quiet",
        "        pass  # who is quiet",
        _TESTS + "test_a_leader_that_gives_up_wakes_its_followers",
    ),
    _mutant(
        "a-quiet-follower-waits-for-ever",
        "core.quiet",
        "        state.election_deadline = state.now + patience\n",
        '        state.election_deadline = float("inf")\n',
        _TESTS + "test_a_follower_that_is_not_asked_for_long_looks_for_a_leader",
    ),
    _mutant(
        "a-host-that-does-not-hear-us-is-watched",
        "replica.beats",
        "(self._hears_us.add if hears_us else self._hears_us.discard)(peer)",
        "self._hears_us.add(peer)",
        _BEATS + "test_a_host_that_does_not_hear_this_one_is_not_watched",
    ),
    _mutant(
        "a-host-is-watched-for-ever",
        "replica.beats",
        "return now - self._heard_at[peer] < self._limit",
        'return self._heard_at[peer] > float("-inf")',
        _BEATS + "test_a_host_that_does_not_beat_is_not_watched_any_more",
    ),
    _mutant(
        "a-failed-group-of-a-host-keeps-its-connections",
        "runtime.driver",
        "            self.transport.cut()\n",
        "",
        "tests/dledger/machine/test_quiet_hosts.py::"
        "test_a_node_that_fails_ends_its_connections_while_its_host_goes_on",
    ),
    _mutant(
        "a-group-that-wakes-leaves-its-disk-unwatched",
        "runtime.driver",
        "        if self._rests and not quiet:",
        "        if False:",
        "tests/dledger/machine/test_quiet_hosts.py::"
        "test_a_quiet_node_has_no_timer_of_its_own_until_it_wakes",
        ("R30", "L5"),
        ("        if self._rests:\n            self._wake()\n", ""),
    ),
    _mutant(
        "a-disk-with-work-under-way-is-not-looked-at",
        "replica.disk_watch",
        "return is_calm and all(times.under_way_since() is None for times in self._threads)",
        "return is_calm",
        "tests/dledger/runtime/test_disk_check.py::"
        "test_a_disk_that_has_something_to_tell_is_looked_at_again",
        ("R30", "L5"),
    ),
    _mutant(
        "a-quiet-leader-is-never-rung",
        "runtime.host_parts",
        "        self.alarms.ring(now)\n",
        "",
        "tests/dledger/machine/test_quiet_hosts.py::test_a_host_rings_the_alarms_of_its_groups",
    ),
    _mutant(
        "a-connection-does-not-put-silence-off",
        "core.hosts",
        "    else:\n        quiet.put_off(state)\n",
        "",
        _LATE + "test_a_connection_between_the_last_heartbeat_and_its_answers_puts_silence_off",
    ),
    _mutant(
        "a-member-without-a-host-connects-and-wakes-no-leader",
        "core.hosts",
        "    if state.quiet:\n        quiet.wake(state)\n    else:\n        quiet.put_off(state)\n",
        "    if not state.quiet:\n        quiet.put_off(state)\n",
        _TESTS + "test_a_member_that_connects_wakes_its_leader_unless_its_host_is_watched",
    ),
    _mutant(
        "a-connection-to-a-watched-host-wakes-its-leader",
        "core.hosts",
        "    if is_watched or state.role is not",
        "    if state.role is not",
        _TESTS + "test_a_member_that_connects_wakes_its_leader_unless_its_host_is_watched",
    ),
    _mutant(
        "a-connection-of-a-stranger-wakes-a-leader",
        "core.hosts",
        " or event.peer not in state.progress:",
        ":",
        _TESTS + "test_a_member_that_connects_wakes_its_leader_unless_its_host_is_watched",
    ),
    _mutant(
        "a-connection-wakes-a-follower",
        "core.quiet",
        "    ev.HostsWatched,\n    ev.PeerConnected,\n",
        "    ev.HostsWatched,\n",
        _TESTS + "test_a_member_that_connects_wakes_its_leader_unless_its_host_is_watched",
    ),
    _mutant(
        "a-follower-that-a-late-message-wakes-tells-no-leader",
        "core.quiet",
        "    state.reset_election_deadline()\n    tell(state)\n",
        "    state.reset_election_deadline()\n",
        _LATE + "test_a_late_message_of_the_leader_does_not_cost_a_learner_its_leader",
    ),
    _mutant(
        "a-follower-that-saw-a-loss-alone-tells-no-leader",
        "core.hosts",
        "            quiet.tell(state)\n",
        "            pass\n",
        _LATE + "test_a_loss_of_hosts_that_one_side_alone_saw_does_not_cost_a_learner_its_leader",
    ),
    _mutant(
        "an-answer-of-one-that-woke-again-counts-as-silence",
        "core.quiet",
        "        progress.quiet_round = 0\n    elif",
        "        pass\n    elif",
        _LATE + "test_a_follower_that_woke_again_before_the_leader_is_quiet_is_not_left",
    ),
    _mutant(
        "a-group-does-not-count-its-host-s-clocks",
        "runtime.group_clock",
        "            offsets, self._seen = offsets | known, hosts._settled\n",
        "            self._seen = hosts._settled\n",
        "tests/dledger/runtime/test_group_clock.py::"
        "test_a_group_is_bounded_by_the_clocks_that_its_host_has_measured",
        ("R24",),
    ),
    _mutant(
        "clocks-of-another-kind-are-counted",
        "runtime.group_clock",
        "            if ours is theirs or both_machines:\n",
        "            if True:\n",
        "tests/dledger/runtime/test_group_clock.py::"
        "test_a_clock_of_another_kind_does_not_count_with_its_host_s",
        ("R24",),
    ),
)
