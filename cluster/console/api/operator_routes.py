"""Routes of operators for messages: follow one, send it again, take dead letters out."""

from __future__ import annotations

from cluster.console.api import (
    auditing,
    chaos_runs,
    configuration,
    dead_letters,
    leads,
    resending,
    waiting,
)
from cluster.console.api.paging import CURSOR, FILTER, limit
from cluster.console.api.parameters import FROM, GROUP_PATH, TO, TOPIC
from cluster.console.api.roles import Role
from cluster.console.api.table import Parameter, Route
from cluster.core.audit.entry import OUTCOMES

PLACE = (
    Parameter("broker", "give the broker name of the message", place="body", required=True),
    Parameter(
        "queue",
        "give the queue of the message",
        place="body",
        kind="integer",
        required=True,
        most=(1 << 31) - 1,
    ),
    Parameter(
        "offset",
        "give the queue offset of the message",
        place="body",
        kind="integer",
        required=True,
    ),
)
BODY_LENGTH_MAX = 32_768
_REFUSED = (404, 409, 413, 415)

OPERATING: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/api/v1/messages/trace",
        role=Role.VIEWER,
        summary="The way of one message: half, delayed, stored, read by groups, retried, dead.",
        answer="Trace",
        handler=resending.trace_message,
        parameters=(
            TOPIC,
            Parameter("key", "give the message id, or a key of it alone", required=True),
        ),
    ),
    Route(
        method="GET",
        path="/api/v1/scheduled",
        role=Role.VIEWER,
        summary="Delayed messages and timers that are not delivered yet, in the order of the log.",
        answer="WaitingPage",
        handler=waiting.list_scheduled,
        parameters=(limit(), CURSOR),
    ),
    Route(
        method="GET",
        path="/api/v1/transactions",
        role=Role.VIEWER,
        summary="Half messages of transactions without an outcome yet, in the order of the log.",
        answer="WaitingPage",
        handler=waiting.list_transactions,
        parameters=(limit(), CURSOR),
    ),
    Route(
        method="GET",
        path="/api/v1/members",
        role=Role.VIEWER,
        summary="Members of each Raft group as its leader has them, and how many may fail.",
        answer="Members",
        handler=leads.list_members,
    ),
    Route(
        method="GET",
        path="/api/v1/leads",
        role=Role.VIEWER,
        summary="Leaders of each Raft group, as running nodes remember them, the newest first.",
        answer="LeadMoves",
        handler=leads.list_lead_moves,
        parameters=(limit(),),
    ),
    Route(
        method="POST",
        path="/api/v1/leads",
        role=Role.ADMIN,
        summary="Hand the lead of a broker name to a node, or to the one that fits best.",
        answer="LeadMoved",
        handler=leads.move_lead,
        parameters=(
            Parameter("broker", "give a broker name", place="body", required=True),
            Parameter("node", "the id of a node, as n1", place="body"),
        ),
        command="dledger leader move {broker} {node}",
        statuses=_REFUSED,
    ),
    Route(
        method="GET",
        path="/api/v1/settings",
        role=Role.OPERATOR,
        summary="Settings of the node that is asked, with their origins; secrets are masked.",
        answer="Settings",
        handler=configuration.list_settings,
        parameters=(
            Parameter(
                "which",
                "all, or those that a file, the environment or a flag gave",
                default=configuration.GIVEN,
                choices=configuration.WHICH,
            ),
            FILTER,
        ),
    ),
    Route(
        method="GET",
        path="/api/v1/audit",
        role=Role.ADMIN,
        summary="Changes and refusals with accounts, times and addresses, the newest first.",
        answer="AuditPage",
        handler=auditing.list_audit,
        parameters=(
            Parameter("since_ms", "of this time or later, in ms since 1970", kind="integer"),
            Parameter("account", "only of this access key"),
            Parameter("target", "only with this text in the target, as topic orders"),
            Parameter("outcome", "only those that ended so", choices=OUTCOMES),
            limit(),
            CURSOR,
        ),
    ),
    Route(
        method="GET",
        path="/api/v1/chaos-runs",
        role=Role.VIEWER,
        summary="Finished chaos runs in the folder of admin.chaos_runs, the newest first.",
        answer="ChaosRunPage",
        handler=chaos_runs.list_chaos_runs,
        parameters=(limit(), CURSOR),
    ),
    Route(
        method="GET",
        path="/api/v1/chaos-runs/{run}/report",
        role=Role.VIEWER,
        summary="The report of one chaos run: a whole HTML page, as text.",
        answer="ChaosReport",
        handler=chaos_runs.chaos_report,
        parameters=(
            Parameter("run", "give the name of a run of the list", place="path", required=True),
        ),
        statuses=(404, 413),
    ),
    Route(
        method="POST",
        path="/api/v1/messages",
        role=Role.OPERATOR,
        summary="Send a message to a topic that exists, to try it out.",
        answer="Resent",
        handler=resending.send_message,
        parameters=(
            Parameter("topic", "give the topic", place="body", required=True),
            Parameter(
                "body", "give the message", place="body", required=True, length_max=BODY_LENGTH_MAX
            ),
            Parameter("base64", "is the body base64", place="body", kind="boolean", default=False),
            Parameter("key", "a key to find it by", place="body"),
            Parameter("tag", "a tag that consumers choose by", place="body"),
        ),
        command="dledger produce {topic}",
        statuses=_REFUSED,
    ),
    Route(
        method="POST",
        path="/api/v1/messages/resend",
        role=Role.OPERATOR,
        summary="Send a message again: to its topic, to another one, or to one group alone.",
        answer="Resent",
        handler=resending.resend_message,
        parameters=(
            Parameter("topic", "give the topic of the message", place="body", required=True),
            *PLACE,
            Parameter("to_topic", "another topic than its own", place="body"),
            Parameter("to_group", "only this consumer group gets it", place="body"),
        ),
        command="dledger message resend {topic} --at {broker}:{queue}:{offset}",
        statuses=_REFUSED,
    ),
    Route(
        method="GET",
        path="/api/v1/dead-letters/{group}/export",
        role=Role.VIEWER,
        summary="Dead letters of one group with their whole bodies, the oldest first.",
        answer="MessagePage",
        handler=dead_letters.export_dead_letters,
        parameters=(
            GROUP_PATH,
            FROM,
            TO,
            Parameter("body", "how bodies are given", default="base64", choices=("base64", "auto")),
            limit(32),
            CURSOR,
        ),
    ),
    Route(
        method="POST",
        path="/api/v1/dead-letters/{group}/resend",
        role=Role.OPERATOR,
        summary="Send a page of a group's dead letters again, the oldest first, or only count it.",
        answer="DeadLettersResent",
        handler=resending.resend_dead_letters,
        parameters=(
            GROUP_PATH,
            Parameter(
                "to",
                "give group (it alone gets them) or topic (every group does)",
                place="body",
                default="group",
                choices=("group", "topic"),
            ),
            *(Parameter(one.name, one.help, place="body", kind=one.kind) for one in (FROM, TO)),
            Parameter(
                "limit",
                "how many at most",
                place="body",
                kind="integer",
                default=100,
                least=1,
                most=200,
            ),
            Parameter(
                "cursor",
                "give the cursor of the answer before, or leave it out",
                place="body",
                length_max=CURSOR.length_max,
            ),
            Parameter("dry_run", "only count them", place="body", kind="boolean", default=True),
        ),
        command="dledger dlq resend {group} --to {to}",
        statuses=_REFUSED,
    ),
    Route(
        method="PATCH",
        path="/api/v1/settings/{key}",
        role=Role.ADMIN,
        summary="Set a setting on every running node of each broker name; those that are is_live.",
        answer="SettingChanged",
        handler=configuration.change_setting,
        parameters=(
            Parameter(
                "key", "a setting of the section broker", place="path", required=True, length_max=80
            ),
            Parameter(
                "value",
                "as in a settings file; empty: each node's own counts again",
                place="body",
                default="",
            ),
        ),
        command="dledger config set {key} {value}",
        statuses=_REFUSED,
    ),
)
