"""Parameters that several routes have."""

from __future__ import annotations

from cluster.client.admin.topics import QUEUES_COUNT_MAX
from cluster.console.api.bodies import FORMATS
from cluster.console.api.paging import CURSOR, FILTER, limit
from cluster.console.api.table import Parameter

TOPIC_PATH = Parameter("topic", "the name of a topic", place="path", required=True)
GROUP_PATH = Parameter("group", "the name of a consumer group", place="path", required=True)
TOPIC = Parameter("topic", "give the name of a topic", required=True)
BODY = Parameter("body", "how bodies are shown", default="auto", choices=FORMATS)
BROKER = Parameter("broker", "only queues of this broker name")
QUEUE = Parameter("queue", "only the queue of this number", kind="integer", most=(1 << 31) - 1)
FROM = Parameter("from_ms", "stored at this time or later, in ms since 1970", kind="integer")
TO = Parameter("to_ms", "stored at this time or earlier, in ms since 1970", kind="integer")
QUEUES = Parameter(
    "queues",
    "queues on each broker name",
    place="body",
    kind="integer",
    required=True,
    least=1,
    most=QUEUES_COUNT_MAX,
)
PAGE = (FILTER, limit(), CURSOR)
