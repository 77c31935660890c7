"""Parameters that several routes have."""

from __future__ import annotations

from cluster.client.admin.topics import PERMS, QUEUES_COUNT_MAX
from cluster.console.api.bodies import FORMATS
from cluster.console.api.paging import CURSOR, FILTER, limit
from cluster.console.api.table import Parameter
from cluster.protocol.durability import Durability

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
DURABILITY = Parameter(
    "durability",
    "when its sends are acknowledged",
    place="body",
    choices=tuple(level.value for level in Durability),
)
PERM = Parameter("perm", "read, write or read-write", place="body", choices=tuple(PERMS))
GROUP_SETTINGS = (
    Parameter("consume", "may it read; false pauses it", place="body", kind="boolean"),
    Parameter("broadcast", "may its members read as broadcasting ones", "body", "boolean"),
    Parameter("retries", "attempts before a dead letter", "body", "integer", most=1_000_000),
    Parameter("retry_queues", "queues of a new retry topic", "body", "integer", least=1, most=4096),
)
PAGE = (FILTER, limit(), CURSOR)
