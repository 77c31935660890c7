"""Fields of 326: a reply on its way to the client that asked (docs/spec/remoting.md 2.6).

Server → client and not oneway: the body is the reply's, the answer has code 0 and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PushReplyRequest:
    """326. Hosts are `ip:port`, times ms; `properties` is the block as text.

    Source: docs/spec/store.md 1.3.
    """

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: int
    queue_id: int
    sys_flag: int
    born_timestamp: int
    flag: int
    born_host: str
    store_host: str
    store_timestamp: int
    properties: str | None = None
    reconsume_times: int = 0
    unit_mode: bool = False
