"""The 46 command lines of the official mqadmin 5.3.3: each ends cleanly and says what is so.

One process runs them all, beside an online consumer and an online producer (MqAdmin.java); here
each line's output is compared with what the cluster was told. Lines: mqadmin/lines.txt.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cluster.local.launcher import LocalCluster

from .conftest import Case, cases
from .harness import toolchains
from .harness.content import create_topics
from .harness.running import Facts, Run, run

VERSION = "5.3.3"
LINES = (Path(__file__).parent / "mqadmin" / "lines.txt").read_text().splitlines()
# The order configuration that a later line asks for.
BEFORE = ("updateOrderConf -t TopicH -m put -v <bn>:4",)
BROKER = "broker-a"
CLUSTER = "DefaultCluster"
TAG_A_HASH = 2598919  # "TagA".hashCode()


@dataclass(frozen=True, slots=True)
class Said:
    """What one line printed, and what is known of the cluster."""

    out: str
    setup: Facts
    broker: str
    leader: str
    nameserver: str

    def rows(self, first: str) -> list[list[str]]:
        """The table rows whose first column is `first`, split at blanks."""
        return [line.split() for line in self.out.splitlines() if line.split()[:1] == [first]]

    def row(self, first: str) -> list[str]:
        (found,) = self.rows(first)
        return found

    def values(self, separator: str) -> dict[str, str]:
        """Lines of the form key, separator, value."""
        pairs = (line.split(separator, 1) for line in self.out.splitlines() if separator in line)
        return {key.strip(): value.strip() for key, value in pairs}

    def ends(self) -> list[str]:
        """The end of each queue of TopicH: so many were sent there, also through a relay."""
        queues = [one["queue"] for one in self.setup["sent"]]
        return [str(queues.count(queue)) for queue in QUEUES]

    def sent(self, number: int) -> Facts:
        found: Facts = self.setup["sent"][number]
        return found


Check = Callable[[Said], Any]
QUEUES = range(4)


def cluster_list(said: Said) -> None:
    rows = said.rows(CLUSTER)
    assert sorted(row[3] for row in rows)
    assert len(rows) == 3
    assert {row[1] for row in rows} == {BROKER}
    (leader,) = [row for row in rows if row[2] == "0"]
    assert leader[3] == said.leader
    assert {row[4] for row in rows} == {"V5_3_3"}


def topic_list(said: Said) -> None:
    listed = said.out.split()
    assert {"TopicH", "TBW102", BROKER, CLUSTER, "%RETRY%CG_H"} <= set(listed)
    assert len(listed) == len(set(listed))


def topic_list_of_cluster(said: Said) -> None:
    assert [CLUSTER, "TopicH", "CG_H"] in said.rows(CLUSTER)


def topic_status(said: Said) -> None:
    rows = said.rows(BROKER)
    assert [row[:4] for row in rows] == [
        [BROKER, str(queue), "0", end] for queue, end in zip(QUEUES, said.ends(), strict=True)
    ]


def topic_route(said: Said) -> None:
    assert f'"cluster":"{CLUSTER}"' in said.out
    assert f'0:"{said.leader}"' in said.out.replace('"0":', "0:")
    assert said.out.count('"readQueueNums":4') == 1
    assert '"perm":6' in said.out


def update_topic(said: Said) -> None:
    assert f"create topic to {said.leader} success." in said.out
    assert "topicName=TopicN1, readQueueNums=2, writeQueueNums=2, perm=RW-" in said.out


def consumer_progress(said: Said) -> None:
    rows = sorted(said.rows("TopicH"), key=lambda row: row[2])
    assert [row[1:6] for row in rows] == [
        [BROKER, str(q), end, end, "0"] for q, end in zip(QUEUES, said.ends(), strict=True)
    ]
    assert re.search(r"Diff Total: 0\b", said.out)


def all_progress(said: Said) -> None:
    row = said.row("CG_H")
    assert row[1:5] == ["1", "V5_3_3", "PUSH", "CLUSTERING"]
    assert row[-1] == "0"


def consumer_connection(said: Said) -> None:
    assert said.setup["consumer"] in said.out
    assert "V5_3_3" in said.out
    assert said.row("TopicH") == ["TopicH", "*"]
    assert said.row("%RETRY%CG_H") == ["%RETRY%CG_H", "*"]
    values = said.values(":")
    assert values["ConsumeType"] == "CONSUME_PASSIVELY"
    assert values["MessageModel"] == "CLUSTERING"
    assert values["ConsumeFromWhere"] == "CONSUME_FROM_FIRST_OFFSET"


def consumer_config(said: Said) -> None:
    assert f"{CLUSTER}:{BROKER}" in said.out
    values = said.values("=")
    assert values["groupName"] == "CG_H"
    assert (values["consumeEnable"], values["retryMaxTimes"]) == ("true", "16")


def broker_status(said: Said) -> None:
    values = said.values(":")
    assert values["brokerVersionDesc"] == "V5_3_3"
    assert int(values["msgPutTotalTodayNow"]) >= 8
    assert 0 <= float(values["commitLogDiskRatio"]) <= 1


def broker_consume_stats(said: Said) -> None:
    rows = sorted((r for r in said.rows("TopicH") if r[1] == "CG_H"), key=lambda row: row[3])
    assert [row[2:7] for row in rows] == [
        [BROKER, str(q), end, end, "0"] for q, end in zip(QUEUES, said.ends(), strict=True)
    ]


def broker_config(said: Said) -> None:
    values = said.values("=")
    assert values["brokerName"] == BROKER
    assert values["brokerClusterName"] == CLUSTER


def message_detail(number: int, *, tracked: bool = True) -> Check:
    """The whole of message `number`, and who consumed it."""

    def check(said: Said) -> None:
        values, one = said.values(":"), said.sent(number)
        assert values["Topic"] == "TopicH"
        assert values["Keys"] == f"[key{number}]"
        assert values["Queue ID"] == str(one["queue"])
        assert values["Queue Offset"] == str(one["offset"])
        assert f"UNIQ_KEY={one['id']}" in values["Properties"]
        position = int(one["offset_id"][-16:], 16)
        assert values["CommitLog Offset"] == str(position)
        if tracked:
            assert re.search(r"consumerGroup=CG_H, trackType=CONSUMED\b", said.out)

    return check


def by_key(said: Said) -> None:
    one = said.sent(1)
    assert said.row(one["id"]) == [one["id"], str(one["queue"]), str(one["offset"])]


def all_messages(said: Said) -> None:
    for one in said.setup["sent"]:
        assert said.out.count(f"UNIQ_KEY={one['id']}") == 1
        assert re.search(rf"BODY: {one['label']}\b", said.out)


def send_message(said: Said) -> None:
    (row,) = said.rows(BROKER)
    assert row[2] == "SEND_OK"


def round_trips(said: Said) -> None:
    rows = said.rows(BROKER)
    assert len(rows) == 2
    assert {row[2] for row in rows} == {"true"}
    assert "Avg RT" in said.out


def cluster_round_trips(said: Said) -> None:
    rows = said.rows(CLUSTER)
    assert len(rows) >= 3
    assert {(row[1], row[3], row[4]) for row in rows} == {(BROKER, "2", "0")}


def offsets_set_to(*, end: bool) -> Check:
    """One row per queue with its new offset, 0 or the end of what was sent at first, or more: other
    lines send, too.
    """

    def check(said: Said) -> None:
        rows = {int(row[-2]): int(row[-1]) for row in said.rows(BROKER)}
        assert sorted(rows) == list(QUEUES)
        wanted = [int(count) if end else 0 for count in said.ends()]
        assert all(rows[queue] >= wanted[queue] for queue in QUEUES), (rows, wanted)
        if not end:
            assert set(rows.values()) == {0}

    return check


def says(*parts: str) -> Check:
    """The output has these, in any order; <broker> and <ns> stand for addresses."""

    def check(said: Said) -> None:
        for part in parts:
            filled = part.replace("<broker>", said.broker).replace("<leader>", said.leader)
            filled = filled.replace("<ns>", said.nameserver)
            assert filled.replace("<consumer>", said.setup["consumer"]).replace(
                "<producer>", said.setup["producer"]
            ) in re.sub(r"[ \t]+", " ", said.out), part

    return check


def stats(said: Said) -> None:
    """CG_X has the positions that were cloned; all 11 messages of TopicH count."""
    rows = {row[1]: row for row in said.rows("TopicH")}
    assert sorted(rows) == ["CG_H", "CG_X"]
    assert {row[5] for row in rows.values()} == {"11"}
    assert rows["CG_H"][2] == "0"


def allocated(said: Said) -> None:
    assert sorted(re.findall(r'"queueId":(\d)', said.out)) == ["0", "1", "2", "3"]
    for client in ("192.0.2.1", "192.0.2.2"):
        assert re.search(rf'"{client}":\[.+?\]', said.out)


def queue_entries(said: Said) -> None:
    """What lies in queue 0; the code of a tag is Java's hash of it."""
    assert f"max: {said.ends()[0]}, min: 0" in said.out
    positions = [int(found) for found in re.findall(r"physicOffset=(\d+)", said.out)]
    here = [one for one in said.setup["sent"] if one["queue"] == 0]
    assert positions == [int(one["offset_id"][-16:], 16) for one in here]
    assert set(re.findall(r"tagsCode=(-?\d+)", said.out)) == {str(TAG_A_HASH)}


CHECKS: dict[str, Check] = dict(
    zip(
        LINES,
        (
            *(cluster_list, topic_list, topic_list_of_cluster, topic_status, topic_route),
            *(says(CLUSTER), update_topic),
            says("update topic perm from 6 to 6 in <leader> success."),
            *(consumer_progress, all_progress, says("<consumer>", "V5_3_3"), consumer_connection),
            *(says("<producer>", "JAVA V5_3_3"), says("PG_H", "<producer>")),
            says("create subscription group to <leader> success.", "groupName=CG_N"),
            says("delete subscription group [CG_N] from broker", "success"),
            *(consumer_config, broker_status, broker_consume_stats, broker_config),
            says("update broker config success, <broker>"),
            *(message_detail(1), by_key, message_detail(1), message_detail(0), queue_entries),
            *(all_messages, all_messages, send_message, round_trips, cluster_round_trips),
            says("clone group offset success. srcGroup[CG_H], destGroup=[CG_X], topic[TopicH]"),
            # Before the two resets: the online client carries each out in about ten seconds.
            *(stats, offsets_set_to(end=False), offsets_set_to(end=True)),
            says("topic=[TopicH], orderConf=[broker-a:4]"),
            says("create or update kv config to namespace success."),
            *(says("<ns>"), says("update name server config success!", "<ns>", "a : b")),
            says("wipe write perm of broker[broker-a] in name server[<ns>] OK"),
            says("add write perm of broker[broker-a] in name server[<ns>] OK"),
            *(says("sendStatus=SEND_OK"), allocated, says("success"), says("success")),
            says(
                f"delete topic [TopicN1] from cluster [{CLUSTER}] success.",
                "delete topic [TopicN1] from NameServer success.",
            ),
        ),
        strict=True,
    )
)


def filled(line: str, broker: str, leader: str) -> str:
    """-b names a replica that does not lead; figures of what came in are the leader's."""
    asked = leader if line.startswith("brokerStatus") else broker
    return line.replace("<broker>", asked).replace("<bn>", BROKER)


@dataclass(frozen=True, slots=True)
class Session:
    run: Run
    broker: str
    leader: str
    nameserver: str


@pytest.fixture(scope="module")
def session(
    make_session_cluster: Callable[..., LocalCluster], tmp_path_factory: pytest.TempPathFactory
) -> Session:
    try:
        command = toolchains.java(VERSION)
    except toolchains.Missing as missing:
        pytest.skip(str(missing))
    local = make_session_cluster()
    create_topics(local.nameserver, ["TopicH"])
    leads = local.leader()
    assert leads is not None
    # Any replica takes any request: -b names one that does not lead.
    follower = next(name for name in local.brokers if name != leads)
    broker = local.profile.member(follower).client
    folder = tmp_path_factory.mktemp("mqadmin")
    leader = local.profile.member(leads).client
    text = "\n".join(filled(line, broker, leader) for line in [*BEFORE, *LINES])
    (folder / "lines").write_text(text + "\n")
    start = [*command, "interop.MqAdmin", local.nameserver]
    done = run([*start, str(folder / "lines")], folder)
    return Session(done, broker, leader, local.nameserver)


@pytest.mark.timeout(600)  # the first test runs all lines; clusterRT alone takes nine seconds
@pytest.mark.parametrize("case", cases([Case("mqadmin", line) for line in LINES]))
def test_mqadmin(case: Case, session: Session) -> None:
    line = case.scenario
    facts = session.run.of(filled(line, session.broker, session.leader))
    setup = session.run.of("setup")
    assert len(setup["received"]) == 8, "the consumer is online and has everything"
    if not line.startswith("clusterRT"):  # it never ends by itself
        assert facts["ended"]
        assert "Exception" not in facts["err"], facts["err"][:2000]
    said = Said(facts["out"], setup, session.broker, session.leader, session.nameserver)
    print(facts["out"])
    CHECKS[line](said)
