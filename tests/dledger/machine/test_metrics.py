"""Numbers of embedded logs, as a monitoring system reads them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from dledger import NodeFailed, ReplicatedLog
from dledger.core.types import NodeId
from dledger.runtime.metrics import COUNTER, GAUGE, Metric, metrics_of, prometheus
from tests.waiting import within

from .hosts import Hosts
from .test_host import Adder


@pytest_asyncio.fixture
async def hosts(tmp_path: Path, new_address: Callable[[], str]) -> AsyncIterator[Hosts]:
    made = Hosts(tmp_path, new_address, quiescence=None)
    await made.start("n0")
    yield made
    await made.close()


def value(metrics: list[Metric], name: str) -> float:
    return next(one.value for one in metrics if one.name == f"dledger_embedded_{name}")


async def test_the_numbers_of_a_log_follow_it(hosts: Hosts) -> None:
    host = hosts.hosts["n0"]
    node = await host.open("a", Adder(), create=True, members=["n0"])
    await within(node.propose(1), "a result")
    before = metrics_of(node.log)
    await within(node.propose(2), "a result")
    await within(node.read(lambda: None), "a read")
    after = metrics_of(node.log)
    for name in ("last_index", "commit_index", "applied_index", "flushed_index"):
        assert value(after, name) == value(before, name) + 1
    assert value(after, "reads_by_index_total") > value(before, "reads_by_index_total")
    assert [value(after, name) for name in ("up", "leads", "voters", "disk_good")] == [1, 1, 1, 1]
    labels = dict(after[0].labels)
    assert (labels["group"], labels["node"]) == ("a", "n0")
    await node.close()
    assert value(metrics_of(node.log), "up") == 0


async def test_no_count_falls_when_a_member_goes(hosts: Hosts) -> None:
    """Prometheus takes a count that falls for one of a new process, and adds all of it again."""
    node = await hosts.hosts["n0"].open("a", Adder(), create=True, members=["n0", "n1", "n2"])
    links, transport = node.log.status().links, node.log.driver.transport
    for number, link in enumerate(transport.links.values(), 1):
        link._sent_bytes = link._sent_frames = link._dropped_frames = number
    before = {(one.name, one.labels): one for one in metrics_of(node.log)}
    transport._close_links(NodeId("n1"))
    after = {(one.name, one.labels): one for one in metrics_of(node.log)}
    assert len(links) == 4
    counts = [after[key] for key in after if after[key].kind == COUNTER]
    assert {dict(one.labels).get("link") for one in counts} == {None, "n2/bulk", "n2/control"}
    assert all(one.value >= before[one.name, one.labels].value for one in counts)


async def test_a_log_that_was_not_started_has_no_numbers(hosts: Hosts) -> None:
    log = ReplicatedLog(hosts.hosts["n0"].config_of("b", ["n0"]))
    with pytest.raises(NodeFailed, match="not started"):
        metrics_of(log)


def test_the_text_has_one_heading_for_all_logs_and_escapes_labels() -> None:
    odd = (("group", 'a"\\\nb'),)
    text = prometheus(
        [
            Metric("x", GAUGE, "an x", 1.0, (("group", "a"),)),
            Metric("y_total", COUNTER, "a y", 2.5, ()),
            Metric("x", GAUGE, "an x", 1e9 + 1, odd),
        ]
    )
    assert text == (
        "# HELP x an x\n# TYPE x gauge\n"
        'x{group="a"} 1\n'
        'x{group="a\\"\\\\\\nb"} 1000000001\n'
        "# HELP y_total a y\n# TYPE y_total counter\n"
        "y_total{} 2.5\n"
    )
