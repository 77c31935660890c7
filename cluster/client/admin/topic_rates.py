"""Messages a second of each topic, as the brokers' own statistics of the last minute have them.

Asked by request 315, which stock brokers know, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from cluster.client.routing.client_instance import ClientInstance
from cluster.client.routing.leader_requests import ask_leader
from cluster.client.routing.routes import DEFAULT_TOPIC
from cluster.errors import ServerError
from cluster.protocol.admin_headers import StatsDataRequest
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import encode
from cluster.protocol.json_body import read_answer

STORED = "TOPIC_PUT_NUMS"
"""RocketMQ's name of the count of messages stored in a topic."""


async def topic_rates(instance: ClientInstance, topics: Sequence[str]) -> dict[str, float]:
    """Topic → messages stored a second, on all broker names; 0 where none came.

    Raises ClusterError. One request for each topic and broker name: ask for a few topics at a time.
    """
    found = dict.fromkeys(topics, 0.0)
    for broker in sorted(await instance.routes.registered()):
        for topic in topics:
            request = encode(StatsDataRequest(STORED, topic))
            code = RequestCode.VIEW_BROKER_STATS_DATA
            try:
                answer = await ask_leader(instance, broker, DEFAULT_TOPIC, code, request)
            except ServerError:  # RocketMQ's answer where nothing was counted yet
                continue
            minute = read_answer(answer.body, "statistics").get("statsMinute", {})
            found[topic] += float(minute.get("tps", 0.0))
    return found
