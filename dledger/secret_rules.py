"""Which texts are no secrets: too short, or what an example file has in its place."""

from __future__ import annotations

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
