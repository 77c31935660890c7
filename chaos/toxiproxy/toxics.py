"""Toxics, and what all of one stream together mean for a direction of a link (chaos.md 3.3).

latency     latency, jitter ms           bandwidth   rate KB/s; 0 holds everything back
timeout     timeout ms; 0: for ever      slicer      average_size, size_variation, delay us
reset_peer  timeout ms                   limit_data  bytes
slow_close  delay ms

of ours: loss chance · corrupt chance · duplicate chance · reorder chance · freeze · replay every
         drop_after bytes: the rest vanishes · blackhole_syn: dials are not answered, of any stream
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaos.live.link_proxy import Layer, Mode
from chaos.live.shape import Shape

UPSTREAM, DOWNSTREAM = "upstream", "downstream"

#: Type → its attributes with their defaults.
TYPES: dict[str, dict[str, float]] = {
    "latency": {"latency": 0, "jitter": 0},
    "bandwidth": {"rate": 0},
    "slow_close": {"delay": 0},
    "timeout": {"timeout": 0},
    "reset_peer": {"timeout": 0},
    "slicer": {"average_size": 0, "size_variation": 0, "delay": 0},
    "limit_data": {"bytes": 0},
    "loss": {"chance": 0},
    "corrupt": {"chance": 0},
    "duplicate": {"chance": 0},
    "reorder": {"chance": 0},
    "replay": {"every": 1},
    "freeze": {},
    "drop_after": {"bytes": 0},
    "blackhole_syn": {},
}


class InvalidToxic(ValueError):
    """A toxic that does not exist or has attributes that it cannot have."""


@dataclass(frozen=True, slots=True)
class Toxic:
    """One toxic of one stream; `toxicity` is the share of the connections that it hits."""

    name: str
    type: str
    stream: str
    toxicity: float = 1.0
    attributes: Mapping[str, float] = field(default_factory=dict)

    def to_fields(self) -> dict[str, Any]:
        """As the HTTP contract has it."""
        return {
            "name": self.name,
            "type": self.type,
            "stream": self.stream,
            "toxicity": self.toxicity,
            "attributes": dict(self.attributes),
        }


def read_toxic(found: Mapping[str, Any]) -> Toxic:
    """From a request's object. Raises InvalidToxic."""
    kind, stream = found.get("type", ""), found.get("stream") or DOWNSTREAM
    if kind not in TYPES:
        raise InvalidToxic("invalid toxic type")
    if stream not in (UPSTREAM, DOWNSTREAM):
        raise InvalidToxic("stream was invalid, can be either upstream or downstream")
    name = str(found.get("name") or f"{kind}_{stream}")
    toxicity = _toxicity(found, 1.0)
    return Toxic(name, kind, stream, toxicity, _attributes(kind, TYPES[kind], found))


def changed(toxic: Toxic, found: Mapping[str, Any]) -> Toxic:
    """The toxic with other attributes; what is not named stays. Raises InvalidToxic."""
    toxicity = _toxicity(found, toxic.toxicity)
    attributes = _attributes(toxic.type, toxic.attributes, found)
    return Toxic(toxic.name, toxic.type, toxic.stream, toxicity, attributes)


def _toxicity(found: Mapping[str, Any], before: float) -> float:
    value = found.get("toxicity", before)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidToxic("toxicity must be a number of 0 to 1")
    return float(value)


def _attributes(
    kind: str, before: Mapping[str, float], found: Mapping[str, Any]
) -> dict[str, float]:
    given = found.get("attributes") or {}
    if not isinstance(given, Mapping):
        raise InvalidToxic("attributes must be an object")
    values = dict(before)
    for name, value in given.items():
        if name not in TYPES[kind]:
            continue  # as the original: what it does not know is not its business
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise InvalidToxic(f"{name} of {kind} must be a number of 0 or more")
        values[name] = value
    return values


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a stream's toxics do together; `idle_close` and `slow_close` in seconds, -1 for none."""

    mode: Mode
    shape: Shape | None
    resets: bool = False
    idle_close: float = -1.0
    slow_close: float = -1.0


def layers(toxics: Sequence[Toxic], seed: int) -> list[Layer]:
    """What connections meet: who drew a number under a share is hit by all toxics of that share.

    The shares are the toxics' toxicities; the draw is the connection's own, once for its life (the
    original draws again whenever a toxic of the stream changes).
    """
    found = []
    for share in sorted({toxic.toxicity for toxic in toxics}):
        one = meaning([toxic for toxic in toxics if toxic.toxicity >= share], seed)
        found.append((share, one.mode, one.shape))
    return found


def meaning(toxics: Iterable[Toxic], seed: int) -> Meaning:
    """Of the toxics of one stream, in any order."""
    shape = Shape(seed=seed)
    shaped, mode, resets, idle, slow = False, Mode.PASS, False, -1.0, -1.0
    for toxic in toxics:
        value = toxic.attributes
        match toxic.type:
            case "timeout":
                mode = Mode.DROP
                idle = value["timeout"] / 1e3 if value["timeout"] else -1.0
            case "freeze":
                mode = Mode.FREEZE
            case "bandwidth" if not value["rate"]:
                mode = Mode.FREEZE
            case "reset_peer":
                shape.cut_after, resets, shaped = 0, True, True
            case "slow_close":
                slow = value["delay"] / 1e3
            case "blackhole_syn":
                pass  # of the listener, not of a stream
            case _:
                shaped = True
                _shape(shape, toxic.type, value)
    shape.__post_init__()
    return Meaning(mode, shape if shaped else None, resets, idle, slow)


def _shape(shape: Shape, kind: str, value: Mapping[str, float]) -> None:
    match kind:
        case "latency":
            shape.latency += value["latency"] / 1e3
            shape.jitter += value["jitter"] / 1e3
        case "bandwidth":
            shape.bandwidth = value["rate"] * 1000
        case "slicer":
            shape.slice_size = max(1, int(value["average_size"]))
            shape.slice_variation = int(value["size_variation"])
            shape.slice_delay = value["delay"] / 1e6
        case "limit_data":
            shape.cut_after, shape.cut_politely = int(value["bytes"]), True
        case "drop_after":
            shape.drop_after = int(value["bytes"])
        case "replay":
            shape.replay = int(value["every"])
        case "loss" | "corrupt" | "duplicate" | "reorder":
            setattr(shape, kind, value["chance"])
