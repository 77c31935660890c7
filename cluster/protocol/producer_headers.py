"""31016: a producer id goes over to the account that asks (`access/README.md`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TakeOverProducerRequest:
    """`producer_id`: as in `__PID`. Answered when every later message of others is refused."""

    producer_id: str
    bname: str | None = None
