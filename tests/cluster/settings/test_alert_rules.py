"""Alert rules as Prometheus' own promtool reads them: each fires, and none in a calm hour."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from cluster.metrics.page import metrics_md
from cluster.settings.conf_alerts import RULES, Rule, alerts_yml, runbook_of, runbooks_md
from tests.cluster.console.conftest import MakeWorld, make_world
from tests.interop.harness import toolchains
from tests.waiting import limit

__all__ = ["make_world"]  # a fixture

RAFT = {"group": "broker-a", "self_id": "n0"}
BROKER = {"cluster": "c", "node_id": "n0"}
#: Rule → series that make it fire within the hour, and the labels that its alert has.
FIRES: dict[str, tuple[Mapping[str, str], Mapping[str, str]]] = {
    "DledgerNodeDown": (
        {'up{job="dledger", instance="a:1"}': "0x60"},
        {"job": "dledger", "instance": "a:1"},
    ),
    "DledgerNoLeader": (
        {'dledger_role{group="broker-a", self_id="n0", role="follower"}': "1x60"},
        {"group": "broker-a"},
    ),
    "DledgerNoMargin": (
        {
            'dledger_members_may_fail{group="broker-a", self_id="n0"}': "0x60",
            'dledger_last_index{group="broker-a", self_id="n0"}': "7x60",
            'dledger_last_index{group="broker-a", self_id="n1"}': "7x60",
        },
        RAFT,
    ),
    "DledgerReplicaBehind": (
        {'dledger_follower_lag_entries{group="broker-a", self_id="n0", remote_id="n"}': "10001x60"},
        {**RAFT, "remote_id": "n"},
    ),
    "DledgerLeaderMoves": ({'dledger_term{group="broker-a", self_id="n0"}': "1+1x60"}, RAFT),
    "DledgerDiskFails": (
        {'dledger_disk{group="broker-a", self_id="n0", disk="full"}': "1x60"},
        {**RAFT, "disk": "full"},
    ),
    "DledgerDiskFilling": (
        {'dledger_disk_used_ratio{cluster="c", node_id="n0"}': "0.9x60"},
        BROKER,
    ),
    "DledgerLogDamaged": ({'dledger_damaged_ranges{group="broker-a", self_id="n0"}': "1x60"}, RAFT),
    "DledgerRecordsPassedOver": (
        {'dledger_records_passed_over{group="broker-a", self_id="n0"}': "1x60"},
        RAFT,
    ),
    "DledgerMistakes": ({'dledger_mistakes_total{group="broker-a", self_id="n0"}': "0+1x60"}, RAFT),
    "DledgerClockOff": (
        {'dledger_clock_ahead_seconds{group="broker-a", self_id="n0"}': "-11x60"},
        RAFT,
    ),
    "DledgerSyncSlow": ({'dledger_sync_seconds{group="broker-a", self_id="n0"}': "0.7x60"}, RAFT),
    "DledgerSendsRefused": (
        {'dledger_proposals_rejected_total{group="broker-a", self_id="n0"}': "0+90x60"},
        RAFT,
    ),
    "DledgerClientPortTaken": (
        {'dledger_client_ports_closed{group="broker-a", self_id="n0"}': "1x60"},
        RAFT,
    ),
    "DledgerSignaturesRefused": (
        {'dledger_signatures_refused_total{group="broker-a", self_id="n0"}': "0+90x60"},
        RAFT,
    ),
    "DledgerCertificateEnds": (
        {
            'dledger_certificate_not_after_seconds{group="broker-a", self_id="n0", use="peers", '
            'file="n0.pem"}': "1209600x60"
        },
        {**RAFT, "use": "peers", "file": "n0.pem"},
    ),
    "DledgerCertificateEndsSoon": (
        {
            'dledger_certificate_not_after_seconds{group="broker-a", self_id="n0", use="peers", '
            'file="n0.pem"}': "172800x60"
        },
        {**RAFT, "use": "peers", "file": "n0.pem"},
    ),
    "DledgerConsumerBehind": (
        {'dledger_consumer_lag_seconds{cluster="c", node_id="n0", consumer_group="g"}': "901x60"},
        {**BROKER, "consumer_group": "g"},
    ),
    "DledgerMembersDisagree": (
        {'dledger_groups_disagreeing{cluster="c", node_id="n0"}': "1x60"},
        BROKER,
    ),
    "DledgerClientIdsShared": (
        {'dledger_client_ids_shared{cluster="c", node_id="n0"}': "1x60"},
        BROKER,
    ),
    "DledgerDelayedNearlyFull": (
        {'dledger_delayed_messages{cluster="c", node_id="n0"}': "400001x60"},
        BROKER,
    ),
    "DledgerTransactionsNearlyFull": (
        {'rocketmq_half_messages{cluster="c", node_id="n0"}': "80001x60"},
        BROKER,
    ),
}


@pytest.fixture(scope="module")
def promtool() -> str:
    try:
        return toolchains.promtool()
    except toolchains.Missing as missing:
        pytest.skip(f"not here: {missing}" if toolchains.may_install() else str(missing))


def run_tests(promtool: str, folder: Path, tests: list[dict[str, Any]]) -> str:
    """What promtool says of these tests of the rules; "" if all is well. JSON is YAML, too."""
    (folder / "rules.yml").write_text(alerts_yml())
    asked = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": tests}
    (folder / "tests.yml").write_bytes(orjson.dumps(asked))
    command = [promtool, "test", "rules", "tests.yml"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=limit(60))
    return "" if done.returncode == 0 else done.stdout + done.stderr


def one_test(series: Mapping[str, str], **expected: list[dict[str, Any]]) -> dict[str, Any]:
    """At the end of the hour exactly the alerts `expected`, of each rule."""
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [
            {"eval_time": "59m", "alertname": r.name, "exp_alerts": expected.get(r.name, [])}
            for r in RULES
        ],
    }


def alert_of(rule: Rule, labels: Mapping[str, str]) -> dict[str, Any]:
    summary = re.sub(r"{{ \$labels\.(\w+) }}", lambda found: labels.get(found[1], ""), rule.summary)
    return {
        "exp_labels": {**labels, "severity": rule.severity},
        "exp_annotations": {"summary": summary, "runbook": runbook_of(rule)},
    }


def test_each_rule_fires_on_its_fault_and_no_other_one_does(promtool: str, tmp_path: Path) -> None:
    assert set(FIRES) == {rule.name for rule in RULES}
    tests = [
        one_test(FIRES[rule.name][0], **{rule.name: [alert_of(rule, FIRES[rule.name][1])]})
        for rule in RULES
    ]
    assert run_tests(promtool, tmp_path, tests) == ""
    tests[0]["alert_rule_test"][0]["exp_alerts"] = []
    assert "DledgerNodeDown" in run_tests(promtool, tmp_path, tests[:1]), "promtool looks"


async def test_no_rule_fires_in_a_calm_hour_of_a_real_node(
    make_world: MakeWorld, promtool: str, tmp_path: Path
) -> None:
    async with make_world() as world:
        await world.mq.admin().create_topic("T", 1)
        async with world.mq.producer() as producer:
            await producer.send("T", b"one")
        async with world.http.get(world.base + "/metrics") as answer:
            text = await answer.text()
    series = {'up{job="dledger", instance="a:1"}': "1x60"}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ", ".join(f'{name}="{value}"' for name, value in sample.labels.items())
            series[f"{sample.name}{{{labels}}}"] = f"{sample.value}x60"
    assert len(series) > 50
    assert run_tests(promtool, tmp_path, [one_test(series)]) == ""


def test_every_metric_of_a_rule_is_one_of_a_node() -> None:
    known = set(re.findall(r"^\| `(\w+)`", metrics_md(), re.MULTILINE)) | {"up"}
    for rule in RULES:
        named = set(re.findall(r"\b(?:dledger|rocketmq)_\w+|\bup\b", rule.expr))
        assert named, rule
        assert named <= known, rule


def test_every_rule_has_its_runbook() -> None:
    page = runbooks_md()
    for rule in RULES:
        assert f"\n## {rule.name}\n" in page
        assert rule.steps
        assert f"runbook: {runbook_of(rule)}\n" in alerts_yml()
