"""Mutants of who is believed: proofs between nodes, signatures of clients."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch

_LINK = "tests/cluster/broker/test_link_hello.py::"
_WINDOW = "tests/cluster/core/access/test_single_use.py::"
_SINGLE_USE = "cluster.core.access.single_use"
_HELLO = "cluster.broker.serving.hello"

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
                "cluster.broker.serving.router",
                "            return access.caller_at_leader(connection.address, frame)\n",
                "            return access.caller_before(connection.address, frame)\n",
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
        (Patch(_SINGLE_USE, "        elif not repeatable:\n", "        elif False:\n"),),
        tests=(f"{_WINDOW}test_a_full_window_lets_no_change_through_unseen",),
    ),
)
