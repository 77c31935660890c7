"""The rights of an account to a topic or a group."""

from __future__ import annotations

import enum


class Permission(enum.Flag):
    """PUB of a group is to produce in its name."""

    DENY = 0
    PUB = 1
    SUB = 2
