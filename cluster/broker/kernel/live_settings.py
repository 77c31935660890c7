"""The settings of a broker as they are now: those of its start, and over them those of the log.

    BrokerConfig of the start ─┐
                               ├─► LiveSettings.now, a BrokerConfig
    the log (SettingsTable) ───┘

What is read from `now` each time may change while the node runs; all else is from the start. A
value of the log that this node does not understand, or that does not fit to its own settings, does
not count here, and its log file says so: the node goes on with its own.
"""

from __future__ import annotations

import dataclasses
import logging
import typing
from collections.abc import Mapping
from typing import Any

from cluster.broker.config import BrokerConfig
from cluster.core.live_settings import LIVE
from cluster.settings.values import convert

LEAST: dict[str, float] = {"connections_max": 100, "idle_seconds_max": 35.0}
"""Below it no client might stay connected for long enough to take the value back. Nothing in a
settings file could, since the log counts before it. Clients talk every 30 s.
"""
_log = logging.getLogger(__name__)


class LiveSettings:
    """One per broker."""

    def __init__(self, config: BrokerConfig) -> None:
        self._own = self.now = config

    def take(self, values: Mapping[str, str]) -> None:
        """All that the log says now."""
        found = self._own
        for name, text in values.items():
            try:
                found = changed(found, name, text)
            except ValueError as error:
                _log.warning("broker.%s of the log does not count here: %s", name, error)
        for name in LIVE:
            before, after = getattr(self.now, name), getattr(found, name)
            if before != after:
                _log.info("broker.%s is %s now, and was %s", name, after, before)
        self.now = found


def changed(config: BrokerConfig, name: str, text: str) -> BrokerConfig:
    """The settings with another value of one that may be live. Raises ValueError."""
    if name not in LIVE:
        raise ValueError(f"{name} is not changed while a node runs")
    value: Any = convert(text, typing.get_type_hints(BrokerConfig)[name])
    if value < LEAST.get(name, value):
        raise ValueError(f"{name} is at least {LEAST[name]:g} while nodes run; give more")
    found = dataclasses.replace(config, **{name: value})
    found.validate()
    return found


def text_of_setting(value: object) -> str:
    """As a settings file and RocketMQ's tools have it."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
