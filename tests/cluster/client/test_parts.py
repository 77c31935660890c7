"""Small pure parts: assignment, acks, the retry table; finding name servers; the admin."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cluster
from cluster import errors
from cluster.client.acks import Acks
from cluster.client.assignment import assign
from cluster.client.config import ClientConfig, ClientConfigError, ProducerConfig
from cluster.client.discovery import resolve
from cluster.client.retry import Action, rule_for
from cluster.errors import ClusterError, InvalidRequest, NotConnected, RequestNotSupported
from cluster.protocol.json_body import MessageQueue

from .stub_cluster import StubGroup

pytestmark = pytest.mark.virtual_time

random_search = settings(deadline=None, max_examples=60)  # other tests share the machine


@random_search
@given(st.integers(0, 40), st.sets(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=9))
def test_every_queue_has_one_reader_and_shares_are_equal(count: int, members: set[str]) -> None:
    queues = [MessageQueue("T", "b", number) for number in range(count)]
    shares = [assign(reversed(queues), sorted(members), member) for member in members]
    assert sorted(queue for share in shares for queue in share) == queues
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1
    for share in shares:
        assert share == queues[queues.index(share[0]) :][: len(share)] if share else True


def test_assignment_of_the_specification() -> None:
    queues = [MessageQueue("T", "b", number) for number in range(7)]
    assert [queue.queue_id for queue in assign(queues, ["b", "c", "a"], "a")] == [0, 1, 2]
    assert [queue.queue_id for queue in assign(queues, ["b", "c", "a"], "c")] == [5, 6]
    assert assign(queues, ["b"], "stranger") == []


@random_search
@given(st.lists(st.integers(1, 4), min_size=1, max_size=12), st.data())
def test_the_position_is_the_first_open_message(steps: list[int], data: st.DataObject) -> None:
    """Against the obvious version: a list of all offsets handed out."""
    acks, offset = Acks(3), 3
    handed: list[int] = []
    done: set[int] = set()
    for step in steps:
        offset += step - 1
        acks.skipped_to(offset) if data.draw(st.booleans()) else None
        acks.handed_out(offset)
        handed.append(offset)
        offset += 1
        for one in data.draw(st.lists(st.sampled_from(handed), max_size=3)):
            acks.acked(one)
            done.add(one)
        still_open = [one for one in handed if one not in done]
        assert acks.position == (still_open[0] if still_open else offset)


@pytest.mark.parametrize(
    "kind",
    [k for _, k in inspect.getmembers(errors, inspect.isclass) if issubclass(k, ClusterError)],
    ids=lambda kind: kind.__name__,
)
def test_every_error_has_a_rule(kind: type[ClusterError]) -> None:
    error = kind("x", 1) if kind is errors.UnknownResponseCode else kind("x")  # type: ignore[call-arg]
    rule = rule_for(error)
    assert (rule.action is Action.GIVE_UP) == (not error.retriable)
    assert rule.pause <= 0.05, "failover must stay well under a second"


def test_where_the_name_servers_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    monkeypatch.setenv("DLEDGER_HOME", str(tmp_path))
    assert resolve("a:1;b:2, c:3") == ["a:1", "b:2", "c:3"]
    with pytest.raises(ClientConfigError, match="dledger up"):
        resolve(None)
    for bad in ("a", "a:", ":1", "a:b"):
        with pytest.raises(ClientConfigError, match="host:port"):
            resolve(bad)
    (tmp_path / "local").mkdir()
    ports = {"ns": {"client": "127.0.0.1:9"}, "n0": {"client": "127.0.0.11:8"}}
    (tmp_path / "local" / "ports.json").write_text(json.dumps(ports))
    assert resolve(None) == ["127.0.0.1:9"]
    monkeypatch.setenv("NAMESRV_ADDR", "env:5")
    assert resolve(None) == ["env:5"]


def test_impossible_settings_name_both_values() -> None:
    with pytest.raises(ClientConfigError, match=r"3.0 .*1.0"):
        ClientConfig(stall_timeout=3.0, request_timeout=1.0)
    with pytest.raises(ClientConfigError, match="batch_bytes_max"):
        ProducerConfig(batch_bytes_max=1 << 30)
    with pytest.raises(ClientConfigError):
        ProducerConfig(in_flight_max=0)


async def test_admin(group: StubGroup) -> None:
    async with cluster.connect(group.nameserver.address) as client:
        admin = client.admin()
        await admin.create_topic("Made", 3)
        assert {"Made", "T", "TBW102"} == set(await admin.list_topics())
        async with client.producer() as producer:
            await producer.send("Made", b"x", queue_id=2)
        described = await admin.describe_topic("Made")
        assert described.message_count == 1
        assert [(q.queue_id, row.max_offset) for q, row in described.bounds.items()] == [
            (0, 0), (1, 0), (2, 1),
        ]  # fmt: skip
        status = await admin.status()
        assert status.brokers["broker-a"].leader == group.nodes[0].address
        assert status.brokers["broker-a"].term == 1
        with pytest.raises(InvalidRequest, match="4096"):
            await admin.create_topic("Made", 5000)


async def test_the_next_name_server_is_asked(group: StubGroup) -> None:
    address = f"127.0.0.1:1;{group.nameserver.address}"
    async with cluster.connect(address) as client:
        assert "T" in await client.admin().list_topics()
        assert "T" in await client.admin().list_topics()


async def test_nobody_answers() -> None:
    async with cluster.connect("127.0.0.1:1;127.0.0.1:2") as client:
        with pytest.raises(NotConnected, match=r"127.0.0.1:1"):
            await client.admin().list_topics()


async def test_a_broker_leads_to_its_name_servers(group: StubGroup) -> None:
    """Of two addresses of one broker and a dead one; a broker that names nobody says so."""
    group.nameservers = group.nameserver.address
    node = group.nodes[0].address
    async with cluster.connect(f"127.0.0.1:1;{node}") as client:
        assert "T" in await client.admin().list_topics()
        async with client.producer() as producer:
            await producer.send("T", b"x")
    assert [stored.body for stored in group.log] == [b"x"]
    for named in ("", node):
        group.nameservers = named
        async with cluster.connect(node) as client:
            with pytest.raises(RequestNotSupported, match=f"{node} is a broker that registers"):
                await client.admin().list_topics()
