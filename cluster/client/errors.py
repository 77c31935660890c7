"""What is wrong with a client's settings, before anything is dialled."""

from __future__ import annotations

from commitlog.advice import Advised


class ClientConfigError(Advised, ValueError):
    """A setting is impossible by itself or beside another one."""

    advice = "correct the setting"
