"""`@value`: a class of fields that never changes, made fast.

To the type checker it is a frozen dataclass: an assignment to a field is an error there. At run
time it is a plain slotted one, because a frozen one sets each field through `object.__setattr__`
and takes five times as long to make; an entry that travels alone passes some twenty of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """Equal and hashed by its fields, with slots, without a dictionary."""
    return dataclass(slots=True, unsafe_hash=True)(cls)
