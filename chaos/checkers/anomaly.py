"""Words of the checkers; names as Jepsen's and Redpanda's checkers use them.

Source: docs/spec/chaos.md 2.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

#: One replica's values, as (offset, value) with rising offsets.
Log = Sequence[tuple[int, str]]


class Anomaly(NamedTuple):
    """One contradiction: `name` is the class, `detail` a sentence with the operations in it."""

    name: str
    detail: str
