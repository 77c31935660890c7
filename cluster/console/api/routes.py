"""All routes of the API, in the order of the document."""

from __future__ import annotations

import dataclasses
from typing import Any

from cluster.console.api import changes, clients, dead_letters, groups, messages, overview, topics
from cluster.console.api.account_routes import ACCOUNTS
from cluster.console.api.operator_routes import OPERATING
from cluster.console.api.paging import CURSOR, limit
from cluster.console.api.parameters import (
    BODY,
    BROKER,
    DURABILITY,
    FROM,
    GROUP_PATH,
    GROUP_SETTINGS,
    PAGE,
    PERM,
    QUEUE,
    QUEUES,
    TO,
    TOPIC,
    TOPIC_PATH,
)
from cluster.console.api.roles import Role
from cluster.console.api.source import Source
from cluster.console.api.table import Parameter, Route, Values


async def me(source: Source, values: Values) -> dict[str, Any]:
    """The part of the answer that the cluster's side knows; http.py adds the role."""
    status = source.node_status()
    return {
        "cluster": str(status.get("cluster_name", "")),
        "node": str(status.get("node_id", "")),
    }


READING: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/api/v1/me",
        role=Role.VIEWER,
        summary="The role that the token gives, and whether one is required.",
        answer="Me",
        handler=me,
    ),
    Route(
        method="GET",
        path="/api/v1/status",
        role=Role.VIEWER,
        summary="The snapshot of the node that is asked: role, term, pointers, counters.",
        answer="NodeStatus",
        handler=overview.node_status,
    ),
    Route(
        method="GET",
        path="/api/v1/overview",
        role=Role.VIEWER,
        summary="Groups, replicas with their pointers, rates, and what is wrong now.",
        answer="Overview",
        handler=overview.overview,
    ),
    Route(
        method="GET",
        path="/api/v1/topics",
        role=Role.VIEWER,
        summary="Topics by name, with messages and rates.",
        answer="TopicPage",
        handler=topics.list_topics,
        parameters=(
            Parameter("kind", "which topics", default="user", choices=(*topics.KINDS, topics.ALL)),
            *PAGE,
        ),
    ),
    Route(
        method="GET",
        path="/api/v1/topics/{topic}",
        role=Role.VIEWER,
        summary="One topic: route, settings, queues, and the groups that read it.",
        answer="Topic",
        handler=topics.describe_topic,
        parameters=(TOPIC_PATH,),
    ),
    Route(
        method="GET",
        path="/api/v1/groups",
        role=Role.VIEWER,
        summary="Consumer groups by name, with lag in messages and seconds.",
        answer="GroupPage",
        handler=groups.list_groups,
        parameters=PAGE,
    ),
    Route(
        method="GET",
        path="/api/v1/groups/{group}",
        role=Role.VIEWER,
        summary="One group: members, and the lag of each queue with the member that reads it.",
        answer="GroupDetail",
        handler=groups.describe_group,
        parameters=(GROUP_PATH,),
    ),
    Route(
        method="GET",
        path="/api/v1/messages",
        role=Role.VIEWER,
        summary="Messages of a topic by time of storing, or from an offset on.",
        answer="MessagePage",
        handler=messages.list_messages,
        parameters=(
            TOPIC,
            BROKER,
            QUEUE,
            FROM,
            TO,
            Parameter("offset", "from this queue offset on", kind="integer"),
            Parameter(
                "order", "which end comes first", default="newest", choices=("newest", "oldest")
            ),
            BODY,
            limit(),
            CURSOR,
        ),
    ),
    Route(
        method="GET",
        path="/api/v1/messages/search",
        role=Role.VIEWER,
        summary="Messages of a topic with a key, or with a message id, the oldest first.",
        answer="MessagePage",
        handler=messages.search_messages,
        parameters=(
            TOPIC,
            Parameter("key", "give a key or a message id", required=True),
            BODY,
            limit(32),
        ),
    ),
    Route(
        method="GET",
        path="/api/v1/messages/one",
        role=Role.VIEWER,
        summary="One message with its whole body, up to a MiB: by topic, queue and offset, or id.",
        answer="Message",
        handler=messages.one_message,
        parameters=(
            Parameter("id", "the offset message id, 32 or 56 hex digits"),
            Parameter("topic", "the topic, where no id is given"),
            BROKER,
            QUEUE,
            Parameter("offset", "the queue offset", kind="integer"),
            BODY,
        ),
    ),
    Route(
        method="GET",
        path="/api/v1/messages/tail",
        role=Role.VIEWER,
        summary="Messages of a topic as they come, as server-sent events.",
        answer="TailEvent",
        stream=messages.tail,
        parameters=(TOPIC, BODY),
        statuses=(404, 429),
    ),
    Route(
        method="GET",
        path="/api/v1/producers",
        role=Role.VIEWER,
        summary="Connected producers, by producer group.",
        answer="ProducerPage",
        handler=clients.list_producers,
        parameters=PAGE,
    ),
    Route(
        method="GET",
        path="/api/v1/consumers",
        role=Role.VIEWER,
        summary="Connected consumers, by consumer group; groups without one are left out.",
        answer="ConsumerPage",
        handler=clients.list_consumers,
        parameters=PAGE,
    ),
    Route(
        method="GET",
        path="/api/v1/dead-letters",
        role=Role.VIEWER,
        summary="Consumer groups with dead letters.",
        answer="DeadLetterPage",
        handler=dead_letters.list_dead_letter_groups,
        parameters=PAGE,
    ),
    Route(
        method="GET",
        path="/api/v1/dead-letters/{group}",
        role=Role.VIEWER,
        summary="Dead letters of one group, the newest first.",
        answer="MessagePage",
        handler=dead_letters.list_dead_letters,
        parameters=(GROUP_PATH, FROM, TO, BODY, limit(), CURSOR),
    ),
)

CHANGES: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/api/v1/topics",
        role=Role.ADMIN,
        summary="Create a topic on each broker name; one that exists stays as it is.",
        answer="Changed",
        handler=changes.create_topic,
        parameters=(
            Parameter("name", "give the topic's name", place="body", required=True),
            dataclasses.replace(QUEUES, required=False, default=4),
            PERM,
            DURABILITY,
        ),
        command="dledger topic create {name} -q {queues}",
        statuses=(404, 409, 413, 415),
    ),
    Route(
        method="PATCH",
        path="/api/v1/topics/{topic}",
        role=Role.ADMIN,
        summary="Change a topic's queues, who may send or read, and when sends are acknowledged.",
        answer="Changed",
        handler=changes.alter_topic,
        parameters=(TOPIC_PATH, dataclasses.replace(QUEUES, required=False), PERM, DURABILITY),
        command="dledger topic alter {topic} -q {queues} --perm {perm} --durability {durability}",
        statuses=(404, 409, 413, 415),
    ),
    Route(
        method="DELETE",
        path="/api/v1/topics/{topic}",
        role=Role.ADMIN,
        summary="Remove a topic from every broker; its messages cannot be read any more.",
        answer="Changed",
        handler=changes.delete_topic,
        parameters=(TOPIC_PATH,),
        command="dledger topic delete {topic}",
        statuses=(404, 409, 413, 415),
    ),
    Route(
        method="POST",
        path="/api/v1/groups",
        role=Role.ADMIN,
        summary="Create a consumer group before its first member; one that exists stays as it is.",
        answer="Changed",
        handler=changes.create_group,
        parameters=(
            Parameter("name", "give the group's name", place="body", required=True),
            *GROUP_SETTINGS,
        ),
        command="dledger group create {name}",
        statuses=(404, 409, 413, 415),
    ),
    Route(
        method="PATCH",
        path="/api/v1/groups/{group}",
        role=Role.ADMIN,
        summary="Change given settings of a group: pause it, retries, broadcasting.",
        answer="Changed",
        handler=changes.alter_group,
        parameters=(GROUP_PATH, *GROUP_SETTINGS),
        command="dledger group alter {group}",
        statuses=(404, 409, 413, 415),
    ),
    Route(
        method="POST",
        path="/api/v1/groups/{group}/reset",
        role=Role.OPERATOR,
        summary="Let a group go on at another place of a topic, or show what that would change.",
        answer="Reset",
        handler=changes.reset_group,
        parameters=(
            GROUP_PATH,
            Parameter("topic", "give the topic of the queues", place="body", required=True),
            Parameter("to", "give first, last, or a time as ISO 8601", place="body", required=True),
            Parameter("dry_run", "only show it", place="body", kind="boolean", default=True),
        ),
        command="dledger group reset {group} --topic {topic} --to {to}",
        statuses=(404, 409, 413, 415),
    ),
    Route(
        method="POST",
        path="/api/v1/groups/{group}/clone",
        role=Role.OPERATOR,
        summary="Let another group go on where this one is, or show what that would change.",
        answer="Reset",
        handler=changes.clone_group,
        parameters=(
            GROUP_PATH,
            Parameter("target", "give the other group", place="body", required=True),
            Parameter("topic", "only this topic; else all that the group reads", place="body"),
            Parameter("dry_run", "only show it", place="body", kind="boolean", default=True),
        ),
        command="dledger group clone {group} {target}",
        statuses=(404, 409, 413, 415),
    ),
    Route(
        method="DELETE",
        path="/api/v1/groups/{group}",
        role=Role.ADMIN,
        summary="Forget a group without members: its settings, its offsets and its retries.",
        answer="Changed",
        handler=changes.delete_group,
        parameters=(
            GROUP_PATH,
            Parameter(
                "dead_letters",
                "its dead letters go, too",
                place="body",
                kind="boolean",
                default=False,
            ),
        ),
        command="dledger group delete {group}",
        statuses=(404, 409, 413, 415),
    ),
)

ROUTES: tuple[Route, ...] = (*READING, *OPERATING, *CHANGES, *ACCOUNTS)
