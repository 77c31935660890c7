"""`conf/prometheus-alerts.yml`, `docs/runbooks.md`: alerts for Prometheus, and how to act on them.

Limits that the code has are taken from it. Each rule's annotation `runbook` is its section of the
page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cluster.core.delay.delayed import CLOCK_SKEW_MS_MAX
from cluster.core.delay.delayed import WAITING_MAX as DELAYED_MAX
from cluster.core.transactions.halves import WAITING_MAX as HALVES_MAX
from cluster.health.alerts import CRITICAL, DISK_USED_MAX, LAG_ENTRIES_MAX, WARNING
from cluster.security.certificate_ends import URGENT_SECONDS, WARNED_SECONDS

RUNBOOKS = "docs/runbooks.md"
NEARLY_FULL = 0.8
"""Of a table that refuses more when it is full."""
CLOCK_SECONDS_MAX = CLOCK_SKEW_MS_MAX // 1000


class Rule(NamedTuple):
    """One alert.

    Attributes:
        name: of the alert, and the heading of its runbook.
        expr: the query in PromQL; each series that it gives is an alert.
        minutes: how long it must hold.
        summary: one sentence; `{{ $labels.… }}` are the series' labels.
        means: the consequence for clients, for the page.
        steps: what to do, in order.
    """

    name: str
    severity: str
    expr: str
    minutes: int
    summary: str
    means: str
    steps: Sequence[str]


_RENEW = (
    "`dledger tls show FOLDER` lists all certificates and their ends.",
    "`dledger tls renew FOLDER` makes those anew that end soon; copy each node's files to it.",
    "Nodes read the new files by themselves, with the next connection.",
)

RULES = (
    Rule(
        "DledgerNodeDown",
        CRITICAL,
        'up{job="dledger"} == 0',
        1,
        "{{ $labels.instance }} does not answer",
        "The group goes on as long as a majority of its nodes is up.",
        (
            "`dledger status` says which nodes are up, and how many more may fail.",
            "On its machine: is the process there, and how does `dledger logs NODE` end?",
            "Start it (`systemctl start dledger`, or `dledger up`); it catches up by itself.",
        ),
    ),
    Rule(
        "DledgerNoLeader",
        CRITICAL,
        'count by (group) (dledger_role == 1) unless on (group) (dledger_role{role="leader"} == 1)',
        1,
        "no node leads {{ $labels.group }}",
        "Nothing can be sent to this group or read from it.",
        (
            "`dledger status`: a majority must be up. Start the nodes that are down.",
            "All are up: can they reach each other at `raft.peers`? Look at firewalls.",
            "`dledger doctor` on each machine finds clocks, disks and addresses that are wrong.",
        ),
    ),
    Rule(
        "DledgerNoMargin",
        CRITICAL,
        "dledger_members_may_fail < 1 and on (group) count by (group) (dledger_last_index) > 1",
        5,
        "{{ $labels.group }} has no leader as soon as one more node fails",
        "Everything is served still; one more failure ends that.",
        (
            "`dledger member list` says which members are missing or behind.",
            "Bring them back, or replace a machine that is lost: `dledger member replace`.",
        ),
    ),
    Rule(
        "DledgerReplicaBehind",
        WARNING,
        f"dledger_follower_lag_entries > {LAG_ENTRIES_MAX}",
        5,
        "{{ $labels.remote_id }} is far behind its leader",
        "It does not count as a node that may take over.",
        (
            "Look at its disk (`dledger_sync_seconds`) and at its link to the leader.",
            "It catches up by itself when both are well; from very far behind it takes a snapshot.",
        ),
    ),
    Rule(
        "DledgerLeaderMoves",
        WARNING,
        "changes(dledger_term[15m]) > 3",
        0,
        "{{ $labels.group }} elects leaders again and again, as {{ $labels.self_id }} saw",
        "Each election stops sends for a moment.",
        (
            "`dledger logs NODE` says why each election began: no heartbeat, or a slow disk.",
            "Machines that pause (full memory, live migration) need longer election time-outs.",
        ),
    ),
    Rule(
        "DledgerDiskFails",
        CRITICAL,
        'dledger_disk{disk!~"good|recovering"} == 1',
        1,
        "the disk of {{ $labels.self_id }} is {{ $labels.disk }}",
        "It refuses producers, or gives up the lead, until its disk is good again.",
        (
            "`low` or `full`: free space there; the log's retention goes on by itself.",
            "`slow` or `stalled`: look at `dmesg` and the disk's load; move to another one.",
        ),
    ),
    Rule(
        "DledgerDiskFilling",
        WARNING,
        f"dledger_disk_used_ratio > {DISK_USED_MAX}",
        10,
        "the disk of {{ $labels.node_id }} is nearly full",
        "Above its own water mark a broker refuses messages.",
        (
            "Free space, add disk, or keep messages for less time: `broker.reserved_hours`.",
            "What waits (`dledger schedule list`, `dledger txn list`) keeps the log behind it.",
        ),
    ),
    Rule(
        "DledgerLogDamaged",
        CRITICAL,
        "dledger_refused_ranges > 0 or dledger_damaged_ranges > 0",
        10,
        "the log of {{ $labels.self_id }} is damaged and did not repair itself",
        "Damage that another replica has whole is repaired within minutes; this was not.",
        (
            "`dledger verify` compares the replicas; `dledger scrub` looks for more.",
            "Refused ranges: no majority has them whole. Keep all disks, restore a backup.",
            "Replace the disk of the node, then the node: `dledger member replace`.",
        ),
    ),
    Rule(
        "DledgerRecordsPassedOver",
        CRITICAL,
        "dledger_records_passed_over > 0",
        0,
        "{{ $labels.self_id }} met records that its version does not understand",
        "It goes on without what they say, and may differ from nodes of another version.",
        ("Run the version that wrote them, or a newer one, on every node.",),
    ),
    Rule(
        "DledgerMistakes",
        WARNING,
        "increase(dledger_mistakes_total[10m]) > 0",
        0,
        "{{ $labels.self_id }} closed connections because of a mistake of its own",
        "A client was disconnected and connects again.",
        ("`dledger logs NODE` has the traceback; report it with `dledger bundle`.",),
    ),
    Rule(
        "DledgerClockOff",
        WARNING,
        f"abs(dledger_clock_ahead_seconds) > {CLOCK_SECONDS_MAX}",
        5,
        "the clock of {{ $labels.self_id }} differs from its group's",
        "Times of messages are wrong; signed requests of clients may be refused.",
        ("Start the machine's time service (chrony, systemd-timesyncd), and see that it syncs.",),
    ),
    Rule(
        "DledgerSyncSlow",
        WARNING,
        "dledger_sync_seconds > 0.5",
        5,
        "a sync of the log takes {{ $labels.self_id }} more than half a second",
        "Every send waits for a majority's syncs.",
        (
            "Look at the disk's load; give the log a disk of its own.",
            "`dledger leader move` lets another node lead meanwhile.",
        ),
    ),
    Rule(
        "DledgerSendsRefused",
        WARNING,
        "rate(dledger_proposals_rejected_total[5m]) > 1",
        5,
        "{{ $labels.self_id }} refuses sends",
        "Producers wait and send again.",
        (
            "Is the disk full, or slow? See the other alerts of the node.",
            "More comes in than is written: fewer producers, or more broker names.",
        ),
    ),
    Rule(
        "DledgerClientPortTaken",
        CRITICAL,
        "dledger_client_ports_closed > 0",
        1,
        "another program has a client port of {{ $labels.self_id }}",
        "The node keeps its vote and its copy of the log, and no client reaches it there.",
        (
            "`ss -ltnp` on its machine says which program it is; end it, or give it another port.",
            "The node opens the port by itself within 5 s after that.",
        ),
    ),
    Rule(
        "DledgerSignaturesRefused",
        WARNING,
        "rate(dledger_signatures_refused_total[5m]) > 1",
        10,
        "{{ $labels.self_id }} refuses requests for their account or signature",
        "A client has a wrong secret or a wrong clock, or somebody tries secrets.",
        ("`dledger logs NODE` names address and account; compare its secret.",),
    ),
    Rule(
        "DledgerCertificateEnds",
        WARNING,
        f"dledger_certificate_not_after_seconds - time() < {WARNED_SECONDS} >= {URGENT_SECONDS}",
        5,
        "a certificate of {{ $labels.self_id }} ends within 14 days: {{ $labels.file }}",
        "From its end on nobody connects with it anew; connections that are open stay.",
        _RENEW,
    ),
    Rule(
        "DledgerCertificateEndsSoon",
        CRITICAL,
        f"dledger_certificate_not_after_seconds - time() < {URGENT_SECONDS}",
        5,
        "a certificate of {{ $labels.self_id }} ends within 2 days: {{ $labels.file }}",
        "Once it has ended nobody connects with it anew: its node is lost to peers, or to clients.",
        _RENEW,
    ),
    Rule(
        "DledgerConsumerBehind",
        WARNING,
        "dledger_consumer_lag_seconds > 900",
        10,
        "{{ $labels.consumer_group }} is more than 15 minutes behind in {{ $labels.topic }}",
        "Its messages are safe, and late.",
        (
            "`dledger group describe GROUP`: are members connected, and is one queue alone behind?",
            "`dledger dlq list`: does it fail again and again at the same messages?",
            "Start more members, up to the number of queues.",
        ),
    ),
    Rule(
        "DledgerMembersDisagree",
        WARNING,
        "dledger_groups_disagreeing > 0",
        5,
        "members of a consumer group subscribe to different things ({{ $labels.node_id }})",
        "Messages are lost to the group: a member gets what it did not ask for.",
        ("The node's log names the group; give all of its members the same subscriptions.",),
    ),
    Rule(
        "DledgerClientIdsShared",
        WARNING,
        "dledger_client_ids_shared > 0",
        5,
        "clients use the same id ({{ $labels.node_id }})",
        "Members of a group that share an id read the same queues, twice.",
        ("`dledger group describe GROUP` marks them; give each an instance name of its own.",),
    ),
    Rule(
        "DledgerDelayedNearlyFull",
        WARNING,
        f"dledger_delayed_messages > {int(DELAYED_MAX * NEARLY_FULL)}",
        5,
        "{{ $labels.node_id }} holds nearly as many delayed messages as it takes",
        f"At {DELAYED_MAX} it refuses further ones.",
        ("`dledger schedule list` shows them; spread them, or delay in the program instead.",),
    ),
    Rule(
        "DledgerTransactionsNearlyFull",
        WARNING,
        f"rocketmq_half_messages > {int(HALVES_MAX * NEARLY_FULL)}",
        5,
        "{{ $labels.node_id }} holds nearly as many open transactions as it takes",
        f"At {HALVES_MAX} it refuses further ones.",
        (
            "`dledger txn list` shows them with their producer groups.",
            "Is a producer of that group connected, and does its check answer?",
        ),
    ),
)


def alerts_yml() -> str:
    """Rules as Prometheus reads them (`rule_files`)."""
    lines = [
        "# Alerts for the metrics of a node. Made by scripts/gen-conf.",
        f"# What to do about each: {RUNBOOKS}. Scrape the nodes with the job name dledger.",
        "groups:",
        "  - name: dledger",
        "    rules:",
    ]
    for rule in RULES:
        lines += [
            f"      - alert: {rule.name}",
            f"        expr: {_quoted(rule.expr)}",
            *([f"        for: {rule.minutes}m"] if rule.minutes else []),
            "        labels:",
            f"          severity: {rule.severity}",
            "        annotations:",
            f"          summary: {_quoted(rule.summary)}",
            f"          runbook: {runbook_of(rule)}",
        ]
    return "\n".join(lines) + "\n"


def runbook_of(rule: Rule) -> str:
    """The section of the page."""
    return f"{RUNBOOKS}#{rule.name.lower()}"


def _quoted(text: str) -> str:
    """A YAML text in single quotes."""
    return "'" + text.replace("'", "''") + "'"


def runbooks_md() -> str:
    """The page."""
    sections = [
        f"## {rule.name}\n\n"
        f"{_sentence(rule)} Severity: {rule.severity}. {rule.means}\n\n"
        f"```promql\n{rule.expr}\n```\n\n"
        + "".join(f"{number}. {step}\n" for number, step in enumerate(rule.steps, 1))
        for rule in RULES
    ]
    return (
        "# Runbooks\n\n"
        "One section for each alert of `conf/prometheus-alerts.yml`. `dledger doctor` and the "
        "console find much of\nthe same without Prometheus. `dledger chaos alerts` brings each "
        "fault about and shows its alert. Made by `scripts/gen-conf` from "
        "`cluster/settings/conf_alerts.py`.\n\n" + "\n".join(sections)
    )


def _sentence(rule: Rule) -> str:
    """The condition: how long it must hold."""
    return f"Fires when this holds for {rule.minutes} min." if rule.minutes else "Fires at once."
