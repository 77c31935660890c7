"""Stores of ours in the broker's own classes, and stores of theirs in ours: every message.

written here, or imported from a golden store ─► exported ─► DefaultMessageStore ─┐
                                                                                  ├─ the same
what our reader finds in the same folder ─────────────────────────────────────────┘
"""

from __future__ import annotations

import asyncio
import ipaddress
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cluster
from cluster.client import ProducerConfig
from cluster.local import plan
from cluster.local.launcher import LocalCluster
from cluster.move.configs import read_configs
from cluster.move.into_log import import_into
from cluster.move.source import Source
from cluster.move.to_dledger import export_dledger
from cluster.move.to_plain import export_plain
from commitlog.config import StoreConfig
from commitlog.files.system import OS_FILES
from commitlog.inspect.geometry import DerivedSizes
from commitlog.records import sys_flag
from commitlog.records.message import Message
from commitlog.store.reader import StoreReader
from dledger.config import RaftConfig

from ..conftest import SMALL_FILES
from .harness import toolchains
from .harness.running import run

VERSION = "5.3.3"
GOLDEN = Path(__file__).parents[1] / "data" / "golden"
PLAIN = [GOLDEN / "java-store" / "normal", GOLDEN / "java-store" / "normal_running1"]
BROKER = GOLDEN / "dledger" / "dledger-broker" / "store"
FILE_SIZE = 64 << 10
SMALL = StoreConfig(
    commit_log_file_size=FILE_SIZE,
    consume_queue_file_size=20_000,
    batch_queue_file_size=4_600,
    index_slots=100,
    index_entries=200,
    body_size_max=60_000,
)
OF_GOLDEN = StoreConfig(
    commit_log_file_size=16_384,
    consume_queue_file_size=400,
    batch_queue_file_size=460,
    index_slots=64,
    index_entries=40,
)
SECONDS_MAX = 60.0
SENT = 300

Facts = dict[str, Any]


def java(root: Path, config: StoreConfig, home: Path, *mode: str) -> list[Facts]:
    """Every message that the broker's classes find. Skips when they are not here."""
    try:
        start = toolchains.java_store(VERSION)
    except toolchains.Missing as missing:
        pytest.skip(str(missing))
    sizes = (
        *(config.commit_log_file_size, config.consume_queue_file_size),
        *(config.batch_queue_file_size, config.index_slots, config.index_entries),
    )
    done = run([*start, str(root), *map(str, sizes), *mode], home, SECONDS_MAX)
    found: list[Facts] = done.of("read")["messages"]
    return found


def ours(root: Path) -> list[Facts]:
    """The same, read by us: every message that has a place in a queue."""
    found: list[Facts] = []
    with StoreReader(root) as reader:
        for item in reader.items():
            assert item.message is not None
            if sys_flag.goes_to_queue(item.message.sys_flag):
                found.append(_facts(item.message))
        assert not [finding for finding in reader.findings if finding.damage]
    return found


def _facts(message: Message) -> Facts:
    facts: Facts = {
        "topic": message.topic,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "body": bytes(message.body).hex(),
        "properties": dict(message.properties),
        "flag": message.flag,
        "sysFlag": message.sys_flag,
        "born": message.born_timestamp_ms,
        "stored": message.store_timestamp_ms,
        "bornHost": _host(str(message.born_host)),
        "storeHost": _host(str(message.store_host)),
        "reconsumeTimes": message.reconsume_times,
        "physicalOffset": message.physical_offset,
    }
    if message.properties.get("KEYS", "").strip():
        facts["foundByKey"] = True
    return facts


def _host(text: str) -> str:
    """Java writes IPv6 without brackets and in full."""
    address, _, port = text.rpartition(":")
    return f"{ipaddress.ip_address(address.strip('[]'))}:{port}"


def compare(found: list[Facts], wanted: list[Facts]) -> None:
    def place(facts: Facts) -> tuple[str, int, int]:
        return facts["topic"], facts["queueId"], facts["queueOffset"]

    for facts in found:
        facts["bornHost"], facts["storeHost"] = _host(facts["bornHost"]), _host(facts["storeHost"])
    assert [place(facts) for facts in sorted(found, key=place)] == sorted(map(place, wanted))
    for theirs, mine in zip(sorted(found, key=place), sorted(wanted, key=place), strict=True):
        assert theirs == mine


def _import(store: Path, target: Path) -> Source:
    opened = Source(store)
    survey = opened.survey()
    raft = RaftConfig(
        node_id="n0",
        cluster_id="c",
        data_dir=target / "dledger-n0",
        peers={"n0": ("127.0.0.1", 1)},
        data_file_size=FILE_SIZE,
        index_file_size=32 * 1024,
    )
    changes = read_configs(OS_FILES, opened.root).changes(survey.queues)
    import_into(opened, survey, changes, [raft], now_ms=1_700_000_000_000)
    return Source(target)


def _of_dledger(source: Source) -> StoreConfig:
    """What a DLedger-mode export is opened with: RocketMQ's sizes, but for its log files."""
    sizes = DerivedSizes()
    return StoreConfig(
        commit_log_file_size=source.data_file_size,
        consume_queue_file_size=sizes.queue,
        batch_queue_file_size=sizes.batch,
        index_slots=sizes.index.slots,
        index_entries=sizes.index.entries,
    )


def _dledger_mode() -> tuple[str, str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return "n0", str(free.getsockname()[1])


@pytest.fixture(scope="module")
def written_here(tmp_path_factory: pytest.TempPathFactory, new_address: Callable[[], str]) -> Path:
    """The root of a node that took sends of every kind and was stopped."""
    root = tmp_path_factory.mktemp("written")
    members = plan.plan(1, [new_address(), new_address()])
    node = LocalCluster.create(root / "c", members, SMALL_FILES, tied=True)
    node.up()
    try:
        asyncio.run(_send(node.nameserver))
    finally:
        node.down()
    return node.folder("n0") / "data"


async def _send(nameserver: str) -> None:
    async with cluster.connect(nameserver) as mq:
        await mq.admin().create_topic("orders", 4)
        for batching in (False, True):
            async with mq.producer(config=ProducerConfig(batching=batching)) as producer:
                sends = (
                    producer.send(
                        "orders",
                        bytes([number % 256]) * (number * 37 % 9000),
                        key=f"k{number} ö{number}",
                        tags="even" if number % 2 == 0 else None,
                        properties={"n": str(number)},
                    )
                    for number in range(SENT)
                )
                await asyncio.gather(*sends)


@pytest.mark.timeout(600)  # the first test builds
@pytest.mark.parametrize("store", PLAIN, ids=lambda path: path.name)
def test_what_java_wrote_is_read_alike(store: Path, tmp_path: Path) -> None:
    shutil.copytree(store, tmp_path / "store")
    for path in (tmp_path / "store").rglob("*"):
        path.chmod(path.stat().st_mode | 0o200)
    wanted = ours(tmp_path / "store")
    assert len(wanted) == 124
    compare(java(tmp_path / "store", OF_GOLDEN, tmp_path / "home"), wanted)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("store", [*PLAIN, BROKER], ids=lambda path: path.parent.name + path.name)
def test_a_golden_store_through_ours_and_back(store: Path, tmp_path: Path) -> None:
    source = _import(store, tmp_path / "ours")
    export_plain(source, source.survey(), tmp_path / "out", SMALL)
    wanted = ours(tmp_path / "out")
    assert len(wanted) >= 120
    compare(java(tmp_path / "out", SMALL, tmp_path / "home"), wanted)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_golden_group_through_ours_and_back(tmp_path: Path) -> None:
    source = _import(BROKER, tmp_path / "ours")
    export_dledger(source, source.survey(), tmp_path / "out", "n0")
    wanted = ours(tmp_path / "out")
    found = java(tmp_path / "out", _of_dledger(source), tmp_path / "home", *_dledger_mode())
    compare(found, wanted)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", ["plain", "dledger"])
def test_a_store_written_here(written_here: Path, tmp_path: Path, mode: str) -> None:
    source = Source(written_here)
    survey = source.survey()
    if mode == "plain":
        export_plain(source, survey, tmp_path / "out", SMALL)
        found = java(tmp_path / "out", SMALL, tmp_path / "home")
    else:
        export_dledger(source, survey, tmp_path / "out", "n0")
        sizes = _of_dledger(source)
        found = java(tmp_path / "out", sizes, tmp_path / "home", *_dledger_mode())
    wanted = ours(tmp_path / "out")
    assert sum(facts["topic"] == "orders" for facts in wanted) == 2 * SENT
    compare(found, wanted)
