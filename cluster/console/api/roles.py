"""Roles of those that use the API, and the tokens by which they are known.

    viewer     reads everything, message bodies too
    operator   moves groups and sends messages again
    admin      makes, changes and deletes topics and accounts, and reads the audit log

Each role may do what those before it may. Without any token, which settings allow on loopback
alone, every request has the role admin.
"""

from __future__ import annotations

import enum
import hmac
from collections.abc import Mapping

SCHEME = "Bearer "


class Role(enum.IntEnum):
    """A role; the higher ones include the lower ones."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def label(self) -> str:
        """The name in lower case, as the API and the settings write it."""
        return self.name.lower()


class Tokens:
    """The tokens of a node's admin HTTP."""

    def __init__(self, tokens: Mapping[Role, str]) -> None:
        self._tokens = dict(tokens)

    @property
    def required(self) -> bool:
        """True if a request has to show a token."""
        return bool(self._tokens)

    def role_of(self, authorization: str) -> Role | None:
        """The role of a request with this Authorization header; None: its token is not known.

        Every token is compared, in a time that does not depend on the header.
        """
        if not self._tokens:
            return Role.ADMIN
        given = authorization.encode("utf-8", "surrogateescape")
        found = None
        for role in sorted(self._tokens):
            if hmac.compare_digest(given, f"{SCHEME}{self._tokens[role]}".encode()):
                found = role
        return found
