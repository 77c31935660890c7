"""What is wrong with a client's settings, before anything is dialled."""

from __future__ import annotations


class ClientConfigError(ValueError):
    """A setting is impossible by itself or beside another one."""
