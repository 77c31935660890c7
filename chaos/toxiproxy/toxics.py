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
from dataclasses import dataclass, field, replace
from typing import Any

from chaos.live.link_proxy import Layer, Mode
from chaos.live.shape import Shape
from chaos.toxiproxy.bodies import Refused, bad, fields_of, one_of

UPSTREAM, DOWNSTREAM = STREAMS = ("upstream", "downstream")

#: Type → its attributes with their defaults; where that is an int, so is the attribute.
OFFICIAL: dict[str, dict[str, float]] = {
    "latency": {"latency": 0, "jitter": 0},
    "bandwidth": {"rate": 0},
    "slow_close": {"delay": 0},
    "timeout": {"timeout": 0},
    "reset_peer": {"timeout": 0},
    "slicer": {"average_size": 0, "size_variation": 0, "delay": 0},
    "limit_data": {"bytes": 0},
}
TYPES = OFFICIAL | {
    "loss": {"chance": 0.0},
    "corrupt": {"chance": 0.0},
    "duplicate": {"chance": 0.0},
    "reorder": {"chance": 0.0},
    "replay": {"every": 1},
    "freeze": {},
    "drop_after": {"bytes": 0},
    "blackhole_syn": {},
}


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


def read_toxic(found: Any) -> Toxic:
    """From a request's JSON. Raises Refused."""
    fields = fields_of(found)
    kind, stream = one_of(fields, "type", ""), one_of(fields, "stream", DOWNSTREAM)
    name, toxicity = one_of(fields, "name", ""), _toxicity(fields, 1.0)
    given = fields_of(fields.get("attributes"))
    if stream.lower() not in STREAMS:
        raise Refused(400, "stream was invalid, can be either upstream or downstream")
    if kind not in TYPES:
        raise Refused(400, "invalid toxic type")
    values = _attributes(kind, TYPES[kind], given)
    return Toxic(name or f"{kind}_{stream}", kind, stream.lower(), toxicity, values)


def changed(toxic: Toxic, found: Any) -> Toxic:
    """The toxic with other attributes; what is not named stays. Raises Refused."""
    fields = fields_of(found)
    given = fields_of(fields.get("attributes"))
    values = _attributes(toxic.type, toxic.attributes, given)
    return replace(toxic, toxicity=_toxicity(fields, toxic.toxicity), attributes=values)


def _toxicity(fields: Mapping[str, Any], before: float) -> float:
    value = fields.get("toxicity", before)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise bad("toxicity must be a number")
    return float(value)


def _attributes(
    kind: str, before: Mapping[str, float], given: Mapping[str, Any]
) -> dict[str, float]:
    known = {name: value for name, value in given.items() if name in TYPES[kind]}
    for name, value in known.items():
        numbers = int if isinstance(TYPES[kind][name], int) else int | float
        if isinstance(value, bool) or not isinstance(value, numbers) or abs(value) >= 1 << 63:
            raise bad(f"{name} of {kind} is no such number")
        if kind not in OFFICIAL and value < 0:  # the original has its own meaning for those
            raise bad(f"{name} of {kind} must be 0 or more")
    return {**before, **known}


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
