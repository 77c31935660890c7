"""Proof that the other side of a connection knows a secret now, which neither side shows.

    proof = HMAC-SHA256(secret, "dledger " role NUL transcript)

The transcript is what both have said so far, with a nonce of each, so a proof is good on this
connection only. The role keeps one side's proof from being sent back to it as its own.
"""

from __future__ import annotations

import hmac

NONCE_SIZE = 16
PROOF_SIZE = 32


def prove(secret: bytes, role: bytes, transcript: bytes) -> bytes:
    """PROOF_SIZE bytes. `role` holds no NUL."""
    return hmac.digest(secret, b"dledger " + role + b"\0" + transcript, "sha256")


def proves(proof: bytes, secret: bytes, role: bytes, transcript: bytes) -> bool:
    """Was this proof made with that secret, in that role, of these words? In constant time."""
    return hmac.compare_digest(proof, prove(secret, role, transcript))


SECRET_LENGTH_MIN = 8
_PLACEHOLDERS = ("change me", "changeme", "change-me", "change_me", "your secret", "your-secret")


def secret_error(secret: str) -> str | None:
    """Why it cannot be one, to stand behind its name, or None. Never shows the secret."""
    if len(secret) < SECRET_LENGTH_MIN:
        return f"has {len(secret)} characters; give it at least {SECRET_LENGTH_MIN}"
    if any(text in secret.lower() for text in _PLACEHOLDERS):
        return (
            "is still the example's text, which everybody knows; draw one, for example with: "
            "openssl rand -hex 32"
        )
    return None
