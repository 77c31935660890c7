"""JSON schemas of the answers, by name; the tests hold every answer against its own.

An object has exactly the fields that its schema names. A type with "?" may be null.
"""

from __future__ import annotations

from typing import Any

Schemas = dict[str, dict[str, Any]]

_TYPES: dict[str, dict[str, Any]] = {
    "text": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "text?": {"type": ["string", "null"]},
    "int?": {"type": ["integer", "null"]},
    "float?": {"type": ["number", "null"]},
    "texts": {"type": "array", "items": {"type": "string"}},
    "map": {"type": "object", "additionalProperties": {"type": "string"}},
    "object": {"type": "object"},
}


def _type(name: str) -> dict[str, Any]:
    """The schema of `text`, `int?`, `[Row]` (a list of Row), or `Row`."""
    if name in _TYPES:
        return dict(_TYPES[name])
    if name.startswith("["):
        return {"type": "array", "items": {"$ref": f"#/components/schemas/{name[1:-1]}"}}
    return {"$ref": f"#/components/schemas/{name}"}


def _object(optional: str = "", **fields: str) -> dict[str, Any]:
    """An object of these fields; those named in `optional` may be missing."""
    return {
        "type": "object",
        "properties": {name: _type(kind) for name, kind in fields.items()},
        "required": [name for name in fields if name not in optional.split()],
        "additionalProperties": False,
    }


def _page(rows: str, kind: str) -> dict[str, Any]:
    """A page of a list: `total` counts all rows before the filter."""
    return _object(**{rows: f"[{kind}]", "total": "int", "cursor": "text?"})


_NAMED = {"broker": "text", "queue": "int"}
_LAG = {"lag": "int", "lag_seconds": "float"}
_MEMBER = {"client_id": "text", "address": "text", "language": "text", "is_shared": "bool"}
_RATES = {"messages_in_per_second": "float", "messages_out_per_second": "float"}

SCHEMAS: Schemas = {
    "Error": _object(error="ErrorDetail"),
    "ErrorDetail": _object(**{"id": "text", "message": "text", "try": "text", "retriable": "bool"}),
    "Me": _object(role="text", token_required="bool", cluster="text", node="text"),
    "NodeStatus": _type("object"),
    "Overview": _object(
        cluster="text",
        asked_node="text",
        groups="[Group]",
        replicas="[Replica]",
        topic_count="int",
        alerts="[Alert]",
        **_RATES,
    ),
    "Group": _object(
        name="text", leader="text?", term="int?", members="int", may_fail_now="int?", **_RATES
    ),
    "Replica": _object(
        node="text",
        group="text",
        address="text",
        up="bool",
        role="text",
        term="int?",
        leader="text?",
        first_index="int?",
        last_index="int?",
        flushed_index="int?",
        committed_index="int?",
        applied_index="int?",
        dispatched_index="int?",
        lag="int?",
        disk="text",
        disk_detail="text",
        disk_used_ratio="float?",
        failed="text",
        durability="text",
    ),
    "Members": _object(groups="[RaftGroup]", command="text"),
    "RaftGroup": _object(
        name="text",
        leader="text?",
        term="int?",
        majority="int?",
        may_fail="int?",
        may_fail_now="int?",
        members="[RaftMember]",
        visitors="[Visitor]",
    ),
    "RaftMember": _object(
        node="text",
        standing="text",
        address="text",
        service="text",
        behind="int?",
        silent_seconds="float?",
        uncounted="text",
    ),
    "Visitor": _object(node="text", address="text"),
    "LeadMoves": _object(groups="[GroupLeads]", command="text"),
    "GroupLeads": _object(name="text", since_ms="int?", left_out="texts", moves="[LeadMove]"),
    "LeadMoved": _object(broker="text", leader="text", address="text", command="text"),
    "LeadMove": _object(at_ms="int", term="int", before="text?", leader="text", why="text"),
    "Alert": _object(**{n: "text" for n in ("level", "id", "subject", "message", "try")}),
    "TopicPage": _page("topics", "TopicRow"),
    "TopicRow": _object(
        "queues messages messages_in_per_second written_ms error",
        name="text",
        kind="text",
        queues="int",
        messages="int",
        messages_in_per_second="float",
        written_ms="int",
        error="text",
    ),
    "Topic": _object(
        name="text",
        kind="text",
        messages="int",
        messages_in_per_second="float",
        route="[TopicRoute]",
        settings="[TopicSettings]",
        queues="[TopicQueue]",
        groups="texts",
    ),
    "TopicRoute": _object(broker="text", cluster="text", leader="text?", addresses="texts"),
    "TopicSettings": _object(
        broker="text", read_queues="int", write_queues="int", perm="int", durability="text?"
    ),
    "TopicQueue": _object(**_NAMED, first="int", end="int", messages="int", written_ms="int"),
    "GroupPage": _page("groups", "GroupRow"),
    "GroupRow": _object(
        name="text",
        members="int",
        **_LAG,
        topics="texts",
        is_broadcasting="bool",
        has_dead_letters="bool",
    ),
    "GroupDetail": _object(
        name="text",
        is_broadcasting="bool",
        **_LAG,
        subscriptions="map",
        settings="[GroupSettings]",
        members="[GroupMember]",
        queues="[GroupQueue]",
    ),
    "GroupSettings": _object(
        broker="text", consume="bool", broadcast="bool", retries="int", retry_queues="int"
    ),
    "GroupMember": _object(**_MEMBER),
    "GroupQueue": _object(
        topic="text", **_NAMED, next="int", end="int", **_LAG, assigned_to="text?"
    ),
    "MessagePage": _object(topic="text", messages="[Message]", cursor="text?"),
    "Message": _object(
        topic="text",
        **_NAMED,
        offset="int",
        position="int",
        message_id="text",
        keys="texts",
        tags="text?",
        born_ms="int",
        stored_ms="int",
        attempt="int",
        of_topic="text?",
        properties="map",
        body="Body",
    ),
    "Body": _object(format="text", value="text", size="int", is_cut="bool", note="text"),
    "TailEvent": _object(message="Message", skipped="int"),
    "ProducerPage": _page("groups", "ProducerGroup"),
    "ProducerGroup": _object(group="text", producers="[Producer]"),
    "Producer": _object(
        broker="text",
        client_id="text",
        address="text",
        language="text",
        version="int",
        heard_ms="int",
    ),
    "ConsumerPage": _page("groups", "ConsumerGroup"),
    "ConsumerGroup": _object(
        group="text", is_broadcasting="bool", subscriptions="map", consumers="[GroupMember]"
    ),
    "DeadLetterPage": _page("groups", "DeadLetterGroup"),
    "Changed": _object(command="text"),
    "Reset": _object(dry_run="bool", queues="[ResetQueue]", command="text"),
    "ResetQueue": _object(topic="text", **_NAMED, next="int?", then="int"),
    "DeadLettersResent": _object(
        dry_run="bool",
        messages="int",
        cursor="text?",
        failed="text?",
        not_logged="text",
        command="text",
    ),
    "Settings": _object(node="text", settings="[Setting]", live_error="text?", command="text"),
    "Setting": _object(
        key="text", value="text?", origin="text", meaning="text", is_live="bool", set="[SetValue]"
    ),
    "SetValue": _object(broker="text", value="text"),
    "SettingChanged": _object(brokers="texts", failed="text?", command="text"),
    "AuditPage": _object(
        entries="[AuditEntry]", cursor="text?", left_out="[LeftOut]", damaged="int", command="text"
    ),
    "AuditEntry": _object(
        broker="text",
        number="int",
        at_ms="int",
        parameters="object",
        code="int",
        **{
            name: "text"
            for name in (
                *("verb", "target", "outcome", "why", "command"),
                *("account", "address", "client", "via", "by", "node"),
            )
        },
    ),
    "LeftOut": _object(broker="text", why="text"),
    "ChaosRunPage": _object(
        folder="text?", runs="[ChaosRun]", total="int", cursor="text?", command="text"
    ),
    "ChaosRun": _object(
        run="text",
        at_ms="int",
        verdict="text",
        has_report="bool",
        **{
            name: "int?"
            for name in (
                *("acked", "lost", "doubled", "violations"),
                *("seed", "faults", "took_effect"),
            )
        },
    ),
    "ChaosReport": _object(run="text", html="text"),
    "AccountPage": _object(
        accounts="[Account]",
        total="int",
        asked_for="bool",
        own="text?",
        cursor="text?",
        command="text",
    ),
    "Account": _object(
        broker="text",
        account="text",
        admin="bool",
        status="text",
        topics="texts",
        groups="texts",
        default_topic="text",
        default_group="text",
        sealed="text",
        take_over="texts",
        policies="texts",
        secrets="int",
        max_messages="int?",
        max_bytes="int?",
        max_connections="int?",
        **{"from": "text?"},
    ),
    "AccountChanged": _object(account="text", secret="text?", failed="text?", command="text"),
    "WaitingPage": _object(
        total="int", next_due_ms="int?", messages="[Waiting]", cursor="text?", command="text"
    ),
    "Waiting": _object(
        topic="text",
        **_NAMED,
        position="int",
        offset="int",
        due_ms="int",
        level="int",
        message_id="text",
        keys="texts",
        group="text",
        stored_ms="int",
        size="int",
        checks="int",
        asked_ms="int",
    ),
    "Resent": _object(
        topic="text",
        **_NAMED,
        offset="int",
        message_id="text",
        not_logged="text",
        command="text",
    ),
    "Trace": _object(topic="text", message_id="text", steps="[TraceStep]", command="text"),
    "TraceStep": _object(
        kind="text",
        at_ms="int?",
        topic="text",
        **_NAMED,
        offset="int",
        group="text?",
        detail="text",
    ),
    "DeadLetterGroup": _object(group="text", topic="text", messages="int", written_ms="int"),
}
