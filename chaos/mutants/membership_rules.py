"""Mutants of membership rules (dissertation ch. 4; R6, R20).

They break which members count for a majority, when a change takes effect, and how incarnations are
told apart.
"""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch, one_patch
from chaos.sim.profile import Profile

_CORE = "dledger.core."
_TESTS = "tests/dledger/core/test_membership.py::"


def _core(module: str, old: str, new: str) -> tuple[Patch, ...]:
    return (Patch(_CORE + module, old, new),)


MEMBERSHIP = (
    Mutant(
        "incarnations-are-not-pinned",
        ("R6", "S7"),
        _core(
            "configuration",
            "    before = _pinned(configuration, incarnations)\n",
            "    before = configuration\n",
        ),
        tests=(_TESTS + "test_a_change_pins_the_incarnations_that_the_leader_has_met",),
    ),
    Mutant(
        "a-node-joins-before-the-leader-has-met-all-members",
        ("R6", "S7"),
        _core(
            "configuration",
            "    if isinstance(after, Configuration) and _unmet(before, change):\n",
            "    if False:\n",
        ),
        tests=(_TESTS + "test_no_node_joins_while_the_leader_has_not_met_a_member",),
    ),
    Mutant(
        "a-damaged-list-of-peers-counts",
        ("S7", "R6"),
        one_patch(
            "dledger.membership.incarnations",
            "    if check is not None and not is_formers and check != _sum(rows):\n",
            "    if False:\n",
        ),
        tests=(
            "tests/dledger/membership/test_peers.py::"
            "test_one_bit_that_flips_names_no_other_peer_or_incarnation",
        ),
    ),
    Mutant(
        "pinned-incarnations-hide-a-removed-member",
        ("S11",),
        _core(
            "membership",
            "({(m.node_id, m.standing) for m in c.members} for c in (one, other))",
            "({(m.node_id, m) for m in c.members} for c in (one, other))",
        ),
        tests=(
            _TESTS + "test_a_new_leader_finds_whom_a_change_removed_although_others_were_pinned",
        ),
    ),
    Mutant(
        "two-changes-at-once",
        ("S11",),
        _core(
            "membership",
            "    if not _is_settled(state):\n        return Reason.CHANGE_IN_PROGRESS\n",
            "",
        ),
        tests=(_TESTS + "test_one_change_at_a_time",),
        rows=("35",),
        seeds=5,
        profile=Profile(membership=True),
    ),
    Mutant(
        "change-before-an-entry-of-the-term",
        ("S11",),
        _core(
            "membership",
            "    if state.commit < state.noop_index:\n        return Reason.LEADER_NOT_READY\n",
            "",
        ),
        tests=(_TESTS + "test_no_change_before_an_entry_of_the_leaders_term_is_committed",),
    ),
    Mutant(
        "change-by-a-follower",
        ("S11",),
        _core(
            "membership",
            "    if state.role is not Role.LEADER:\n        return Reason.DISK_ERROR",
            "    if state.role is Role.FAILED:\n        return Reason.DISK_ERROR",
        ),
        tests=(_TESTS + "test_only_the_leader_changes_the_group",),
    ),
    Mutant(
        "configuration-counts-when-committed",
        ("R20", "S11"),
        _core(
            "state",
            "        if self.configurations:\n            index, found = self.configurations[-1]\n",
            "        kept = [c for c in self.configurations if c.index <= self.commit]\n"
            "        if kept:\n            index, found = kept[-1]\n",
        ),
        tests=(_TESTS + "test_a_change_counts_when_it_is_appended",),
        rows=("17",),
        seeds=5,
        profile=Profile(membership=True),
    ),
    Mutant(
        "truncation-keeps-the-configuration",
        ("R20",),
        _core(
            "replication",
            "    if state.configuration_index > index:\n"
            "        membership.truncated(state, index)\n",
            "",
        ),
        tests=(_TESTS + "test_a_truncated_change_never_was",),
    ),
    Mutant(
        "restart-forgets-the-configuration",
        ("R20",),
        _core("node", "configurations=list(configurations),", "configurations=[],"),
        tests=(_TESTS + "test_a_restart_finds_the_group_in_the_log",),
    ),
    Mutant(
        "start-does-not-look-for-configurations",
        ("R20",),
        (
            Patch(
                "dledger.durable.configurations",
                "        if first <= index <= last:\n",
                "        if index < 0:\n",
            ),
        ),
        tests=("tests/dledger/durable/test_configurations.py::test_what_was_noted_is_found_again",),
    ),
    Mutant(
        "a-copy-of-a-truncated-configuration-counts",
        ("R20", "D8"),
        (
            Patch(
                "dledger.durable.configurations",
                "return codec.of_text(copy.text.encode()) if copy.term == term else None\n",
                "return codec.of_text(copy.text.encode())\n",
            ),
        ),
        tests=(
            "tests/dledger/durable/test_configurations.py::"
            "test_a_damaged_entry_of_another_term_than_its_copy_is_no_configuration",
        ),
    ),
    Mutant(
        "configurations-are-not-copied",
        ("R20", "D8"),
        (
            Patch(
                "dledger.durable.configurations",
                "        for copy in copies:\n",
                "        for copy in ():\n",
            ),
        ),
        tests=(
            "tests/dledger/durable/test_configurations.py::"
            "test_a_damaged_entry_is_told_by_its_copy",
        ),
    ),
    Mutant(
        "configuration-noted-after-it-is-written",
        ("R20",),
        (
            Patch(
                "dledger.replica.replica",
                "        self._configurations.note(entry, effect.term)\n"
                "        body = self._configurations.encode(effect.configuration)\n",
                "        body = self._configurations.encode(effect.configuration)\n",
            ),
        ),
        tests=(
            "tests/dledger/replica/test_replica_membership.py::test_a_change_is_noted_before_it_is_written",
        ),
    ),
    Mutant(
        "frames-do-not-flag-configurations",
        ("R20",),
        (
            Patch(
                "dledger.replica.ranges",
                "node.configurations_in(first, part.last),",
                "(),",
            ),
        ),
        tests=(
            "tests/dledger/replica/test_replica_membership.py::test_followers_learn_the_group_from_the_frame",
        ),
    ),
    Mutant(
        "learners-are-counted",
        ("S11",),
        _core(
            "configuration",
            "            if m.standing in (Standing.VOTER, Standing.RETURNING)\n",
            "            if m.standing is not Standing.JOINING\n",
        )
        + _core(
            "configuration",
            "            m.node_id if m.standing is Standing.VOTER else",
            "            m.node_id if m.standing is not Standing.RETURNING else",
        ),
        tests=(_TESTS + "test_a_learner_does_not_stand_in_for_a_voter",),
    ),
    Mutant(
        "promoted-without-catching-up",
        ("S11",),
        _core(
            "membership",
            "if change.kind is ChangeKind.PROMOTE and not _keeps_pace(state, change.node_id):",
            "if False:",
        ),
        tests=(_TESTS + "test_one_who_is_behind_is_not_promoted",),
    ),
    Mutant(
        "removed-leader-counts-itself",
        ("S11",),
        _core(
            "leading",
            "    index = Index(agreed(flushed, state.quorum))\n",
            "    index = Index(agreed(flushed, (*{*state.quorum, state.me},)))\n",
        ),
        tests=(_TESTS + "test_a_leader_that_is_removed_does_not_count_itself",),
    ),
    Mutant(
        "removed-leader-stays",
        ("S11",),
        _core(
            "leading",
            "        if state.me not in state.voters:\n            transfer.resign(state)\n",
            "",
        )
        + _core("leading", "    if transfer.has_resigned(state):\n        return False\n", ""),
        tests=(_TESTS + "test_the_leader_removes_itself_and_another_leads_soon",),
    ),
    Mutant(
        "removed-nodes-vote-counts",
        ("S11", "S7"),
        _core(
            "election",
            "    if reply.sender not in state.voters:\n        return\n    wanted",
            "    wanted",
        )
        + _core(
            "configuration",
            'NodeId(f"\\0{m.node_id}")',
            "m.node_id",
        ),
        tests=(_TESTS + "test_the_vote_of_a_returning_voter_is_not_counted",),
    ),
    Mutant(
        "returning-voter-is-counted",
        ("R6", "S7"),
        _core(
            "configuration",
            'NodeId(f"\\0{m.node_id}")',
            "m.node_id",
        ),
        tests=(_TESTS + "test_a_returning_voter_is_not_counted_although_it_acknowledges",),
    ),
    Mutant(
        "readmission-makes-the-quorum-smaller",
        ("R6",),
        _core(
            "configuration",
            "            if m.standing in (Standing.VOTER, Standing.RETURNING)\n",
            "            if m.standing is Standing.VOTER\n",
        ),
        tests=(_TESTS + "test_a_wiped_node_neither_votes_nor_counts_until_it_has_the_log_again",),
    ),
    Mutant(
        "node-that-forgot-promises",
        ("R6", "D2", "R2"),
        _core("membership", "    if not state.forgot:\n", "    if True:\n"),
        tests=(
            _TESTS + "test_a_node_that_forgot_neither_votes_nor_stands_until_it_is_named",
            _TESTS + "test_what_a_node_that_forgot_acknowledges_is_not_counted",
            _TESTS + "test_a_node_that_forgot_confirms_no_leader",
        ),
    ),
    Mutant(
        "lost-mark-keeps-what-was-promised",
        ("R2", "R6"),
        (
            Patch(
                "dledger.log.node_storage",
                "PROMISES = (hard_state_file.FILE_NAME, flush_mark.FILE_NAME)\n",
                "PROMISES = (hard_state_file.FILE_NAME,)\n",
            ),
            Patch(
                "dledger.log.node_storage",
                "        forgets = draw_incarnation is not None and hard_state.state.forgot\n",
                "        forgets = draw_incarnation is not None\n",
            ),
        ),
        tests=(
            "tests/dledger/log/test_lost_files.py::"
            "test_without_its_mark_a_node_keeps_its_log_and_its_vote_and_forgot",
        ),
    ),
    Mutant(
        "a-restart-forgets-that-promises-were-lost",
        ("R6",),
        (
            Patch(
                "dledger.durable.hard_state",
                '    forgot = _FORGOT if state.forgot else b""\n',
                '    forgot = b""\n',
            ),
        ),
        tests=(
            "tests/dledger/log/test_lost_files.py::"
            "test_without_its_vote_file_a_node_goes_on_as_one_that_forgot",
        ),
    ),
    Mutant(
        "node-that-joins-votes",
        ("R6",),
        _core("election", "not membership.may_vote(state) or ", ""),
        tests=(_TESTS + "test_a_node_that_knows_no_group_does_not_vote",),
    ),
    Mutant(
        "node-that-joins-stands",
        ("R6",),
        _core("election", "if membership.may_stand(state) and ", "if "),
        tests=(_TESTS + "test_a_removed_follower_is_told_and_goes_quiet",),
    ),
    Mutant(
        "strangers-are-followed-beside-a-live-leader",
        ("S11", "L1"),
        _core("node", "not (state.leader_is_alive() or known)", "not known"),
        tests=(
            "tests/dledger/core/test_election.py::"
            "test_strangers_are_not_heard_while_a_leader_is_alive",
        ),
    ),
    Mutant(
        "answers-of-strangers-are-heard",
        ("S11", "S7"),
        _core(
            "node",
            "    if not isinstance(message, msg.AppendEntries | msg.Heartbeat):\n"
            "        return False\n    known = message.term",
            '    known = getattr(message, "term", 0)',
        ),
        tests=("tests/dledger/core/test_election.py::test_strangers_are_never_counted",),
    ),
    Mutant(
        "another-incarnation-is-let-in",
        ("R6", "S7"),
        (
            Patch(
                "dledger.membership.roster",
                "        if member.incarnation == incarnation:\n            return None\n",
                "        return None\n",
            ),
        ),
        tests=(
            "tests/dledger/membership/test_roster.py::test_only_the_incarnation_that_the_group_knows",
        ),
    ),
    Mutant(
        "majority-that-is-gone-is-not-looked-for",
        ("S11",),
        _core(
            "membership",
            "    return after if _can_decide(state, after, change) else Reason.QUORUM_LOST\n",
            "    return after\n",
        ),
        tests=(_TESTS + "test_a_removal_that_would_leave_no_majority_alive_is_refused",),
    ),
    Mutant(
        "handed-to-a-learner",
        ("S11",),
        _core(
            "transfer",
            "    if progress is None or to not in state.voters:\n",
            "    if progress is None:\n",
        ),
        tests=(_TESTS + "test_leadership_is_handed_to_voters_only",),
    ),
)
