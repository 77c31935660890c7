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
DISTINCT_MIN = 4
_PLACEHOLDERS = (
    *("change me", "changeme", "change-me", "change_me", "changeit", "change it"),
    *("your secret", "your-secret", "your_secret", "yoursecret"),
    *("placeholder", "replace me", "replace-me", "replace_me", "replaceme"),
)
#: 12345678 stands in the accounts file that RocketMQ ships, so thieves try it first.
_KNOWN = frozenset(
    {"12345678", "123456789", "1234567890", "password", "password1", "secretkey", "rocketmq"}
)


def secret_error(secret: str) -> str | None:
    """Why it cannot be one, to stand behind its name, or None. Never shows the secret."""
    if len(secret) < SECRET_LENGTH_MIN:
        return f"has {len(secret)} characters; give it at least {SECRET_LENGTH_MIN}"
    if any(text in secret.lower() for text in _PLACEHOLDERS):
        return (
            "is still the example's text, which is public; draw one, for example with: "
            "openssl rand -hex 32"
        )
    if secret.lower() in _KNOWN or len(set(secret)) < DISTINCT_MIN:
        return (
            "is one that is tried first by attackers; draw one, for example with: "
            "openssl rand -hex 32"
        )
    return None
