"""Mutants of who is believed: proofs between nodes, signatures of clients."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch

_LINK = "tests/cluster/broker/test_link_hello.py::"
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
)
