"""Another place for a message that must not go into its queue now; interceptors choose it.

    Interceptor(request, target, queue, stored, stamp_ms) ─► Placement, or None: not mine

`stored` is the property block as it would be stored in the real queue, `stamp_ms` the store time.
An interceptor is asked only about messages that may be special: their properties hold "DEL", or
their target says so (`SendTarget.is_special`). It may log what the message needs, for example a
topic, in the same batch. It raises what the client is told; then nothing is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from cluster.broker.kernel.write.send_target import SendTarget
from cluster.protocol.send import SendRequest


class Placement(NamedTuple):
    """The record to store instead: encoded topic field, queue, its live row of queue offsets, …

    `recall_handle`: for the answer; "" for none.
    """

    topic: bytes
    queue: int
    row: list[int]
    properties: bytes
    sys_flag: int
    recall_handle: str = ""


Interceptor = Callable[[SendRequest, SendTarget, int, bytes, int], Placement | None]
