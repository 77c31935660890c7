"""The state of one moment, of which the many rows become JSON later, in any thread.

With 20,000 topics half of the time that a checkpoint takes is the encoding of their rows. Rows are
values, so the event loop only lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from cluster.core.state_json import encode_state
from cluster.core.topics import TopicTable

#: Rows made into JSON in one go: 0.5 ms, in which no other thread runs.
SLICE_COUNT = 500


class CapturedState:
    """Made by `AppliedState.capture`."""

    __slots__ = ("_rest", "_rows", "_version")

    def __init__(self, topics: TopicTable, rest: Mapping[str, Any]) -> None:
        """`rest`: everything else of the checkpoint; encoded now, since tables go on changing."""
        self._rows, self._version = topics.logged(), topics.version
        self._rest = encode_state(rest)

    def encode(self) -> bytes:
        """The checkpoint; the same one however often it is asked for."""
        slices = [
            orjson.dumps([row.to_json() for row in self._rows[at : at + SLICE_COUNT]])[1:-1]
            for at in range(0, len(self._rows), SLICE_COUNT)
        ]
        version = orjson.dumps(self._version.to_json())
        return b'{"topics":{"rows":[%b],"version":%b},%b' % (
            b",".join(slices),
            version,
            self._rest[1:],
        )
