"""Mutants of `dledger.replica.replica`, `dledger.producers.table` and `dledger.wire.frames`."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch


def _replica(old: str, new: str) -> tuple[Patch, ...]:
    return (Patch("dledger.replica.replica", old, new),)


def _producers(old: str, new: str) -> tuple[Patch, ...]:
    return (Patch("dledger.producers.table", old, new),)


_IN_DOUBT = "tests/cluster/broker/test_sends_in_doubt.py::"
_REPLICA = "tests/dledger/replica/test_replica.py::"

REPLICA = (
    Mutant(
        "a-transfer-does-not-wait-for-acknowledgements",
        ("S8",),
        (Patch("dledger.core.transfer", " and _is_quiet(state):", ":"),),
        tests=(
            "tests/dledger/core/test_election.py"
            "::test_a_transfer_waits_until_what_was_proposed_before_is_acknowledged",
        ),
    ),
    Mutant(
        "who-led-is-not-waited-for",
        ("S8",),
        (
            Patch(
                "cluster.broker.kernel.net.forward_links",
                "                link.leave()\n",
                "                link.close()\n",
            ),
        ),
        tests=(
            "tests/cluster/broker/test_forward.py"
            "::test_the_links_of_another_leadership_are_left_and_not_closed",
        ),
    ),
    Mutant(
        "a-send-in-doubt-is-stored-without-a-look",
        ("S8",),
        (Patch("cluster.broker.produce.repeated", "    if not found:\n", "    if True:\n"),),
        tests=(
            f"{_IN_DOUBT}test_what_is_stored_is_answered_and_not_stored_again",
            f"{_IN_DOUBT}test_a_leader_dies_with_a_send_that_a_relay_passed_on",
        ),
    ),
    Mutant(
        "a-relay-gives-what-is-on-the-retry-topic",
        ("R18",),
        (
            Patch(
                "cluster.broker.kernel.net.relayed",
                "    if isinstance(request, PullRequest):\n",
                "    if isinstance(request, PullRequest) and not request.topic:\n",
            ),
        ),
        tests=(
            "tests/cluster/broker/test_relay_port.py"
            "::test_queues_of_a_notification_route_are_empty_and_at_position_0",
        ),
    ),
    Mutant(
        "a-send-in-doubt-is-settled-in-its-own-term",
        ("S8",),
        (
            Patch(
                "cluster.broker.kernel.net.doubts",
                "        if term >= self._leadership.term:",
                "        if term > self._leadership.term:",
            ),
        ),
        tests=(f"{_IN_DOUBT}test_what_cannot_be_told_stays_unknown",),
    ),
    Mutant(
        "a-link-outlives-its-leadership",
        ("S8",),
        (
            Patch(
                "cluster.broker.kernel.net.router",
                "        if connection.link_term not in (None, self._leadership.term):",
                "        if False:",
            ),
        ),
        tests=(f"{_IN_DOUBT}test_a_link_is_served_in_its_own_term_only",),
    ),
    Mutant(
        "ack-before-commit",
        ("S8",),
        _replica(
            "        assert self.log.last.index == effect.last\n",
            "        assert self.log.last.index == effect.last\n"
            "        self._pending._proposals.remove(proposal)\n"
            "        proposal.done(proposal, None)\n",
        ),
        tests=(
            "tests/dledger/replica/test_replica.py::test_a_proposal_is_done_when_committed_and_applied",
        ),
        rows=("26",),
        seeds=5,
    ),
    Mutant(
        "what-is-only-written-is-applied",
        ("S9",),
        _replica(
            "self.pace.through(self.applied, effect.index, self.repair)",
            "self.pace.through(self.applied, self.log.last.index, self.repair)",
        ),
        rows=("25",),
        seeds=5,
    ),
    Mutant(
        "step-down-says-it-did-not-happen",
        ("S8",),
        (
            Patch(
                "dledger.replica.pending",
                "from dledger.errors import OutcomeUnknown\n",
                "from dledger.errors import QueueFull as OutcomeUnknown\n",
            ),
        ),
        tests=(
            "tests/dledger/replica/test_replica.py::test_a_failed_sync_stops_the_replica_for_good[log]",
        ),
    ),
    Mutant(
        "pending-survives-step-down",
        ("S8",),
        _replica("            self._pending.leadership_ended(self._now)\n", ""),
        tests=(_REPLICA + "test_a_lost_leadership_leaves_the_outcome_unknown",),
        rows=("27",),
    ),
    Mutant(
        "what-was-cut-waits-to-be-acknowledged",
        ("S8", "S3"),
        _replica("        self._pending.cut_after(effect.index)\n", ""),
        tests=(_REPLICA + "test_what_was_cut_from_the_log_is_never_acknowledged",),
        rows=("27",),
    ),
    Mutant(
        "an-ended-leadership-is-unknown-at-once",
        ("S8",),
        _replica(
            "            if self.failure is not None or self.node.disk.health",
            "            if True or self.node.disk.health",
        ),
        tests=(_REPLICA + "test_what_the_next_leader_commits_is_acknowledged",),
    ),
    Mutant(
        "read-served-before-applied",
        ("S9",),
        (
            Patch(
                "dledger.replica.freshness",
                "        if applied >= index:\n            ready(None)",
                "        if True:\n            ready(None)",
            ),
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
                "dledger.replica.disk_work",
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
            '            self._fail(f"the disk refused a {work.kind} sync: {error}")\n',
            "            work.task.done = True\n",
        ),
        tests=(
            "tests/dledger/replica/test_replica.py::test_a_failed_sync_stops_the_replica_for_good[log]",
        ),
        rows=("8",),
        seeds=20,
    ),
    Mutant(
        "range-not-checked-before-the-core",
        ("D7", "S10"),
        _replica(
            "verified = self.log.check_range(received(message))",
            "verified = received(message)",
        ),
        tests=(
            "tests/dledger/replica/test_replica.py::test_a_damaged_range_costs_its_connection_and_nothing_else",
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
        tests=(
            "tests/dledger/producers/test_producers.py::test_r8_a_duplicate_waits_for_its_original",
        ),
        rows=("28",),
        seeds=5,
    ),
    Mutant(
        "gap-is-taken",
        ("R8",),
        _producers(
            "            raise SequenceGap(producer, expected, sequence)\n",
            "            return _FRESH\n",
        ),
        tests=(
            "tests/dledger/producers/test_producers.py::test_r8_a_gap_is_refused_so_that_a_refused_number_never_looks_old",
        ),
    ),
    Mutant(
        "duplicate-answered-before-its-original",
        ("R8",),
        _producers(
            "            self._wait_for(producer, stream, sequence + skip - 1),\n",
            "            NO_INDEX,\n",
        ),
        tests=(
            "tests/dledger/producers/test_producers.py::test_r8_a_duplicate_waits_for_its_original",
        ),
    ),
    Mutant(
        "a-new-leader-knows-no-numbers",
        ("R8", "R9"),
        _producers(
            "        self._overlay.clear()\n",
            "        self._overlay.clear()\n        self._applied.clear()\n",
        ),
        rows=("29",),
        seeds=5,
    ),
    Mutant(
        "a-state-forgets-the-numbers-of-producers",
        ("R8", "R15"),
        (
            Patch(
                "cluster.core.producer_rows",
                "for producer, time_ms, stream, run in table.export()",
                "for producer, time_ms, stream, run in ()",
            ),
        ),
        tests=("tests/cluster/core/test_apply.py::test_a_checkpoint_gives_an_equal_state",),
        rows=("29",),
    ),
    Mutant(
        "overlay-survives-step-down",
        ("R9",),
        _producers("        self._overlay.clear()\n", "        pass\n"),
        tests=(
            "tests/dledger/producers/test_producers.py::test_r9_what_was_not_committed_is_forgotten_when_the_leadership_ends",
        ),
    ),
)

WIRE = (
    Mutant(
        "frame-checksum-ignored",
        ("D7",),
        (
            Patch(
                "dledger.wire.frames",
                "if crc32(head, crc32(view[start : start + COVERED.size])) != crc:",
                "if False:",
            ),
        ),
        tests=(
            "tests/dledger/wire/test_wire.py::test_every_flipped_bit_of_a_frame_is_noticed_or_is_log_data",
        ),
        rows=("34",),
        seeds=20,
    ),
    Mutant(
        "a-certificate-of-another-node-is-let-in",
        ("S7",),
        (
            Patch(
                "dledger.membership.handshake",
                "if certified and node not in certified:",
                "if False:",
            ),
        ),
        tests=(
            "tests/dledger/membership/test_handshake.py::test_a_certificate_of_another_node_is_refused",
        ),
    ),
    Mutant(
        "enforced-tls-takes-plain-hellos",
        ("S7",),
        (
            Patch(
                "dledger.runtime.inbound_tls",
                "elif self._tls.mode is TlsMode.ENFORCING:",
                "elif False:",
            ),
        ),
        tests=(
            "tests/dledger/runtime/test_peer_tls.py"
            "::test_enforced_tls_answers_a_plain_hello_with_what_to_do",
        ),
    ),
    Mutant(
        "any-certificate-is-believed",
        ("S7",),
        (
            Patch(
                "dledger.runtime.peer_tls",
                "context.verify_mode = ssl.CERT_REQUIRED",
                "context.verify_mode = ssl.CERT_NONE",
            ),
        ),
        tests=(
            "tests/dledger/runtime/test_peer_tls.py"
            "::test_only_what_the_authority_signed_is_believed",
        ),
    ),
    Mutant(
        "an-older-version-is-let-in",
        ("S7",),
        (Patch("dledger.membership.handshake", "if version != VERSION:", "if version > VERSION:"),),
        tests=(
            "tests/dledger/membership/test_handshake.py"
            "::test_another_version_is_refused_and_other_programs_are_malformed",
        ),
    ),
)
