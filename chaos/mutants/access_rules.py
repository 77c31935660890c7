"""Mutants of authentication: proofs between nodes, signatures of clients."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch

_LINK = "tests/cluster/broker/test_link_hello.py::"
_WINDOW = "tests/cluster/core/access/test_single_use.py::"
_SINGLE_USE = "cluster.core.access.single_use"
_SEAL_TIME = "cluster.core.access.seal_time"
_TIME_TEST = "tests/cluster/core/access/test_seal_time.py::"
_SEAL_TEST = "tests/cluster/core/access/test_seal.py::"
_SEALS = "tests/cluster/broker/test_seals.py::"
_SEAL = "cluster.core.access.seal"
_RULES = "cluster.core.access.rules"
_NAME_SERVER = "tests/cluster/nameserver/test_access.py::"
_HELLO = "cluster.broker.kernel.net.hello"

ACCESS = (
    Mutant(
        "a-recorded-link-opens-another-one",
        ("R18",),
        (
            Patch(
                _HELLO,
                "        self._said, self._words = said, _transcript(frame.ext, self._nonce)\n",
                "        self._nonce = bytes(NONCE_SIZE)\n"
                "        self._said, self._words = said, _transcript(frame.ext, self._nonce)\n",
            ),
        ),
        tests=(f"{_LINK}test_a_recorded_link_is_refused_on_another_connection",),
    ),
    Mutant(
        "a-leader-proves-nothing-to-a-link",
        ("R18",),
        (
            Patch(
                _HELLO,
                '        if not proves(_bytes_of(answer, "proof", PROOF_SIZE),'
                " self._secret, _LEADER, words):\n",
                "        if False:\n",
            ),
        ),
        tests=(f"{_LINK}test_an_impostor_gets_no_request",),
    ),
    Mutant(
        "a-recorded-send-is-stored-through-another-node",
        ("R18",),
        (
            Patch(
                "cluster.broker.kernel.net.callers",
                "lambda asked: access.caller_at_leader(address, asked, peer)",
                "lambda asked: access.caller_again(address, asked)",
            ),
        ),
        tests=(
            "tests/cluster/broker/test_signatures.py"
            "::test_a_recorded_send_is_refused_by_every_node[0]",
        ),
    ),
    Mutant(
        "a-signature-is-good-for-another-code",
        ("R18",),
        (
            Patch(
                _SINGLE_USE,
                "        if use.code != first.code and not",
                "        if False and use.code != first.code and not",
            ),
        ),
        tests=(f"{_WINDOW}test_a_look_is_no_deletion",),
    ),
    Mutant(
        "a-full-window-of-signatures-lets-changes-through",
        ("R18",),
        (
            Patch(
                _SINGLE_USE,
                "        elif code not in (REPEATABLE if seal is None else LOOKS):\n",
                "        elif False:\n",
            ),
        ),
        tests=(f"{_WINDOW}test_a_full_window_lets_no_change_through_unseen",),
    ),
    Mutant(
        "a-sealed-request-is-good-as-another-one",
        ("R18",),
        (Patch(_SEAL, "    if seal.code != code:\n", "    if False:\n"),),
        tests=(f"{_SEAL_TEST}test_what_was_signed_is_no_other_request[another code]",),
    ),
    Mutant(
        "borders-of-a-sealed-request-move",
        ("R18",),
        (Patch(_SEAL, "    if seal.form != form_of(ext, body_size):\n", "    if False:\n"),),
        tests=(f"{_SEAL_TEST}test_what_was_signed_is_no_other_request[a border between fields]",),
    ),
    Mutant(
        "a-name-in-a-seals-form-is-read-as-two",
        ("R18",),
        (
            Patch(
                _SEAL,
                '    return b"%d:%b%d," % (len(raw), raw, size)\n',
                '    return b"%b%d" % (raw, size)\n',
            ),
        ),
        tests=(f"{_SEAL_TEST}test_a_name_is_not_read_as_two",),
    ),
    Mutant(
        "a-seal-comes-off-by-another-name",
        ("R18",),
        (
            Patch(
                _SEAL,
                "    if SEAL not in ext and not content.startswith(MARKER):\n",
                "    if SEAL not in ext:\n",
            ),
        ),
        tests=(f"{_SEAL_TEST}test_what_was_signed_is_no_other_request[the seal as another field]",),
    ),
    Mutant(
        "a-broken-seal-is-no-seal",
        ("R18",),
        (
            Patch(
                _SEAL,
                "    if seal is None or not content.startswith(ext[SEAL].encode()):\n",
                "    if seal is None:\n        return None\n    if False:\n",
            ),
        ),
        tests=(f"{_SEAL_TEST}test_what_was_signed_is_no_other_request[the seal cut in two]",),
    ),
    Mutant(
        "an-account-that-wants-seals-takes-none",
        ("R18",),
        (Patch(_RULES, "    if account.sealed and SEAL not in ext:\n", "    if False:\n"),),
        tests=(f"{_SEALS}test_an_account_may_want_seals",),
    ),
    Mutant(
        "a-seal-is-good-twice",
        ("R18",),
        (
            Patch(
                _SINGLE_USE,
                "            if peer is None or first.peer != peer:\n",
                "            if peer is not None and first.peer != peer:\n",
            ),
        ),
        tests=(f"{_SEALS}test_a_seal_is_good_once_whatever_node_it_comes_to[0]",),
    ),
    Mutant(
        "a-seal-is-good-again-through-another-node",
        ("R18",),
        (
            Patch(
                _SINGLE_USE,
                "            if peer is None or first.peer != peer:\n",
                "            if peer is None:\n",
            ),
        ),
        tests=(f"{_SEALS}test_a_seal_is_good_once_whatever_node_it_comes_to[1]",),
    ),
    Mutant(
        "a-seal-outlives-what-is-remembered",
        ("R18",),
        (
            Patch(
                _SEAL_TIME,
                "        return -_AHEAD_MS <= age <= _BEHIND_MS and",
                "        return -_AHEAD_MS <= age and",
            ),
        ),
        tests=(f"{_SEAL_TEST}test_a_seal_is_remembered_for_as_long_as_it_is_of_now",),
    ),
    Mutant(
        "a-clock-that-is-set-back-is-followed-at-once",
        ("R18",),
        (
            Patch(
                _SEAL_TIME,
                "        elif time - clock > _BEHIND_MS and self._is_unused(clock):\n",
                "        elif time - clock > _BEHIND_MS:\n",
            ),
        ),
        tests=(f"{_TIME_TEST}test_a_time_that_seals_were_taken_of_is_not_gone_back_to",),
    ),
    Mutant(
        "what-is-spent-is-taken-again",
        ("R18",),
        (
            Patch(
                _SEAL_TIME,
                " and not self._is_spent(stamp_ms)\n",
                "\n",
            ),
        ),
        tests=(f"{_TIME_TEST}test_a_jump_ahead_and_back_is_followed_both_ways",),
    ),
    Mutant(
        "a-clock-that-was-ahead-is-never-followed-back",
        ("R18",),
        (
            Patch(
                _SEAL_TIME,
                "        elif time - clock > _BEHIND_MS and self._is_unused(clock):\n",
                "        elif False:\n",
            ),
        ),
        tests=(f"{_TIME_TEST}test_a_clock_that_was_ahead_at_the_start_is_followed_back",),
    ),
    Mutant(
        "a-slower-time-counts-as-a-usual-one",
        ("R18",),
        (
            Patch(
                _SEAL_TIME,
                "        rate = SLEW_RATE if since < self._slewed_at else 1.0\n",
                "        rate = 1.0\n",
            ),
        ),
        tests=(f"{_TIME_TEST}test_a_slower_time_lets_nothing_of_before_in",),
    ),
    Mutant(
        "a-seal-may-be-kept-for-later",
        ("R18",),
        (
            Patch(
                _SEAL_TIME,
                "        return -_AHEAD_MS <= age <= _BEHIND_MS and",
                "        return age <= _BEHIND_MS and",
            ),
        ),
        tests=(f"{_SEAL_TEST}test_a_seal_is_of_now[310--1.001-False]",),
    ),
    Mutant(
        "what-a-full-window-forgets-is-good-again",
        ("R18",),
        (Patch(_SINGLE_USE, "        if last is not None:\n", "        if False:\n"),),
        tests=(f"{_SEAL_TEST}test_what_a_full_window_forgets_is_not_good_again",),
    ),
    Mutant(
        "a-node-that-starts-takes-seals-of-before",
        ("R18",),
        (
            Patch(
                _SINGLE_USE,
                "        self._fresh_since = now()\n",
                "        self._fresh_since = now() - STAMP_BEHIND_SECONDS\n",
            ),
        ),
        tests=(f"{_SEALS}test_a_node_that_starts_takes_nothing_of_before",),
    ),
    Mutant(
        "a-leader-knows-not-up-to-where-seals-were-used",
        ("R18",),
        (
            Patch(
                "cluster.broker.reactions",
                "        self._access.spend_until(self._state.store_ms)\n",
                "",
            ),
        ),
        tests=(f"{_SEALS}test_a_seal_of_a_clock_that_was_ahead_is_good_in_no_later_life",),
    ),
    Mutant(
        "the-log-is-stamped-before-a-seal-that-was-used",
        ("R18", "R24"),
        (
            Patch(
                "cluster.security.access_file",
                "            self._not_before(stamp_ms)\n",
                "            pass\n",
            ),
        ),
        tests=(f"{_SEALS}test_a_seal_stamped_ahead_is_good_in_no_later_leadership",),
    ),
    Mutant(
        "a-leader-takes-seals-of-the-leadership-before",
        ("R18",),
        (
            Patch(
                "cluster.broker.kernel.net.router",
                "self._callers.judged(call.caller, call.frame, "
                "self._leadership.leading_since, serve)",
                "serve()",
            ),
        ),
        tests=(f"{_SEALS}test_a_seal_is_good_in_no_later_leadership",),
    ),
    Mutant(
        "a-client-believes-any-time",
        ("R18",),
        (
            Patch(
                "cluster.client.connection.signed_connection",
                "        if abs(correction) > CORRECTION_MS_MAX:\n",
                "        if False:\n",
            ),
        ),
        tests=(
            "tests/cluster/client/connection/test_stamps.py"
            "::test_a_time_that_is_far_off_is_not_believed[900001]",
        ),
    ),
    Mutant(
        "an-offset-commit-is-a-look",
        ("R18",),
        (
            Patch(
                _SINGLE_USE,
                "    Code.UPDATE_CONSUMER_OFFSET, Code.END_TRANSACTION, Code.LOCK",
                "    Code.END_TRANSACTION, Code.LOCK",
            ),
        ),
        tests=(f"{_SEAL_TEST}test_a_full_window_takes_sealed_looks_only",),
    ),
    Mutant(
        "a-recorded-registration-is-taken-again",
        ("R18",),
        (
            Patch(
                "cluster.protocol.node_proof",
                "        if stamp <= self._newest.get(address, -1):\n",
                "        if False:\n",
            ),
        ),
        tests=(f"{_NAME_SERVER}test_a_recorded_registration_is_taken_once_and_in_its_order",),
    ),
    Mutant(
        "a-name-server-knows-not-up-to-where-seals-were-used",
        ("R18",),
        (
            Patch(
                "cluster.nameserver.access",
                "            accounts.spend_until(self._seals.until_ms)\n",
                "            pass\n",
            ),
        ),
        tests=(f"{_NAME_SERVER}test_a_seal_of_a_clock_that_was_ahead_is_good_in_no_later_life",),
    ),
)
