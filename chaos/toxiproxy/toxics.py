"""Toxics: their types, their attributes and how a request names them (docs/spec/chaos.md 3.3).

latency     latency, jitter ms           bandwidth   rate KB/s; 0 holds everything back
timeout     timeout ms; 0: for ever      slicer      average_size, size_variation, delay us
reset_peer  timeout ms                   limit_data  bytes
slow_close  delay ms

of ours: loss chance · corrupt chance · duplicate chance · reorder chance · freeze · replay every
         drop_after bytes: the rest vanishes · blackhole_syn: dials are not answered, of any stream
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

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
    """Returns the toxic with the attributes in `found`; absent ones stay. Raises Refused."""
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
