"""Reads the text of one option as a value; each function raises OptionError naming the option.

sizes        4096, 64k, 64m, 1g (powers of 1,024)
durations    500ms, 30s, 15m, 1h; a bare number is milliseconds
queues       "0", or "broker-a/0" for a topic that has queues at several broker names
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pipeline.options import OptionError

EARLIEST, LATEST = -2, -1  # Kafka's numbers for both ends
NUMBER_MAX = (1 << 63) - 1  # offsets and times are signed 64-bit numbers on the wire

_SIZE_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_DURATION_UNITS_MS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}

#: topic → queue name → number
QueueNumbers = Mapping[str, Mapping[str, int]]


def number(name: str, text: str, *, least: int = 0) -> int:
    """A whole number of at least `least`."""
    try:
        value = int(text)
    except ValueError:
        raise OptionError(f"{name} is {text!r}; give a whole number") from None
    if not least <= value <= NUMBER_MAX:
        raise OptionError(f"{name} is {value}; give {least} at least, and {NUMBER_MAX} at most")
    return value


def size(name: str, text: str) -> int:
    """A size as bytes, at least 1."""
    value = _with_unit(name, text, _SIZE_UNITS, "a size like 4096, 64m or 1g")
    if value < 1:
        raise OptionError(f"{name} is {text!r}; give one byte at least")
    return value


def duration_ms(name: str, text: str) -> int:
    """A duration as milliseconds."""
    return _with_unit(name, text, _DURATION_UNITS_MS, "a duration like 500ms, 30s or 15m")


def _with_unit(name: str, text: str, units: Mapping[str, int], wanted: str) -> int:
    match = re.fullmatch(r"(\d{1,15})\s*([a-z]*)", text.strip().lower())
    unit = match[2] if match else "?"
    if unit not in units and unit.removesuffix("b") in units:
        unit = unit.removesuffix("b")
    if match is None or unit not in units:
        raise OptionError(f"{name} is {text!r}; give {wanted}")
    return int(match[1]) * units[unit]


def flag(name: str, text: str) -> bool:
    """True for "true", False for "false", in any case."""
    if text.lower() not in ("true", "false"):
        raise OptionError(f"{name} is {text!r}; give true or false")
    return text.lower() == "true"


def one_of(name: str, text: str, *choices: str) -> str:
    """One of a few words, in any case."""
    for choice in choices:
        if text.lower() == choice.lower():
            return choice
    raise OptionError(f"{name} is {text!r}; give {' or '.join(choices)}")


def names(name: str, text: str) -> tuple[str, ...]:
    """Names separated by commas: at least one, and each only once."""
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not found:
        raise OptionError(f"{name} is {text!r}; give one name at least")
    if len(set(found)) != len(found):
        raise OptionError(f"{name} names one twice: {text}")
    return found


def pattern(name: str, text: str) -> str:
    """A regular expression of Python's `re`."""
    try:
        re.compile(text)
    except re.error as error:
        raise OptionError(f"{name} is {text!r}, no regular expression: {error}") from None
    return text


def queue_numbers(name: str, text: str) -> QueueNumbers:
    """Topic → queue → offset or time, from JSON like {"topic": {"0": 23, "broker-a/1": -2}}."""
    table = _json_object(name, text, '{"topic": {"0": 23, "1": -2}}')
    found: dict[str, dict[str, int]] = {}
    for topic, queues in table.items():
        if not isinstance(queues, dict) or not queues:
            raise OptionError(f'{name}: {topic} needs its queues, as in {{"0": 23, "1": -2}}')
        found[topic] = {}
        for queue, value in queues.items():
            if type(value) is not int or not EARLIEST <= value <= NUMBER_MAX:
                raise OptionError(
                    f"{name}: {topic}, queue {queue} is {value!r}; give a whole number, "
                    "-2 for earliest, -1 for latest"
                )
            found[topic][queue_name(name, queue)] = value
    return found


def queue_lists(name: str, text: str) -> Mapping[str, tuple[str, ...]]:
    """Topic → names of queues, from JSON like {"topic": [0, 1, "broker-b/0"]}."""
    table = _json_object(name, text, '{"topic": [0, 1]}')
    found: dict[str, tuple[str, ...]] = {}
    for topic, queues in table.items():
        if not isinstance(queues, list) or not queues:
            raise OptionError(f"{name}: {topic} needs a list of queues, as in [0, 1]")
        found[topic] = tuple(queue_name(name, str(queue)) for queue in queues)
        if len(set(found[topic])) != len(queues):
            raise OptionError(f"{name}: {topic} names a queue twice")
    return found


def queue_name(name: str, text: str) -> str:
    """The name of a queue, unchanged, if it is like "0" or "broker/0" without sign or zeros."""
    broker, slash, queue_id = text.rpartition("/")
    digits = queue_id.isascii() and queue_id.isdigit() and str(int(queue_id)) == queue_id
    if not digits or (slash and not broker):
        raise OptionError(f'{name}: {text!r} is no queue; write "0" or "broker-a/0"')
    return text


def _json_object(name: str, text: str, example: str) -> dict[str, Any]:
    try:
        table = json.loads(text)
    except ValueError as error:
        raise OptionError(f"{name} is no JSON ({error}); write it like {example}") from None
    if not isinstance(table, dict) or not table:
        raise OptionError(f"{name} is {text!r}; write it like {example}")
    return table
