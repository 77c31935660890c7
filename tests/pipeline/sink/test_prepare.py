"""Exactly once where accounts are asked for: it works, or is refused before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from cluster.errors import Unauthorized
from cluster.local.launcher import LocalCluster
from pipeline.options import OptionError
from pipeline.sink import cluster_store
from pipeline.sink.driver import commit_batch, prepare_write
from pipeline.sink.numbering import Numbering
from pipeline.sink.options import STAGING, SinkOptions, sink_options
from pipeline.sink.task import DirectSink, StagingSink

from ..source.guarded import MASTER, READER, SUCCESSOR, WRITER, guarded_cluster


@pytest.fixture(scope="module")
def guarded(
    tmp_path_factory: pytest.TempPathFactory, new_address: Callable[[], str]
) -> Iterator[LocalCluster]:
    hosts = [new_address() for _ in range(4)]
    with guarded_cluster(tmp_path_factory.mktemp("guarded"), hosts, "permissive") as cluster:
        yield cluster


def options_of(cluster: LocalCluster, account: dict[str, str], **more: str) -> SinkOptions:
    mine = {name: text for name, text in account.items() if name != "groupId"}
    return sink_options({"servers": cluster.nameserver, "topic": "orders", **mine, **more})


def test_accounts_are_refused_before_the_write_or_can_do_all_of_it(guarded: LocalCluster) -> None:
    """By stagingTopic one chooses the topic; an administrator makes it, a writer needs it."""
    with pytest.raises(OptionError, match="which is not there and could not be made"):
        prepare_write(options_of(guarded, WRITER))
    prepare_write(options_of(guarded, MASTER))
    with pytest.raises(OptionError, match=f"may not: .*no SUB of topic {STAGING}"):
        prepare_write(options_of(guarded, READER))
    with pytest.raises(OptionError, match="the topic elsewhere"):
        prepare_write(options_of(guarded, WRITER, stagingTopic="elsewhere"))
    options = options_of(guarded, WRITER)
    prepare_write(options)
    sink = StagingSink(options, Numbering("0123456789abcdef", 0, 0))
    sink.add(pa.record_batch({"value": pa.array([b"x" * 1000] * 500, pa.binary())}))
    staged = sink.finish()
    assert staged.places
    commit_batch(options, "0123456789abcdef", 0, [staged])


def test_brokers_that_number_no_producers_are_refused_before_the_write(
    guarded: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of Apache RocketMQ take the question for a message, and store it."""
    options = options_of(guarded, MASTER)
    prepare_write(options)

    async def stored(*_: object) -> int:
        return 2

    monkeypatch.setattr(cluster_store, "next_number", stored)
    with pytest.raises(OptionError, match=r"needs brokers that number .* does not \(Apache"):
        prepare_write(options)


def test_a_query_goes_on_under_another_account_that_takes_it_over(guarded: LocalCluster) -> None:
    """It must be allowed to and must say so; then the former account is fenced off."""
    prepare_write(options_of(guarded, MASTER))
    before, after = options_of(guarded, WRITER), options_of(guarded, SUCCESSOR)
    taking = options_of(guarded, SUCCESSOR, takeOver="true")

    def write(options: SinkOptions, query: str, batch: int) -> None:
        sink = StagingSink(options, Numbering(query, 0, batch))
        sink.add(pa.record_batch({"value": pa.array([b"row %d" % batch] * 9, pa.binary())}))
        commit_batch(options, query, batch, [sink.finish()])

    for query in ("handed-0", "kept-0"):
        write(before, query, 0)
        with pytest.raises(Unauthorized, match="belongs to another account"):
            write(after, query, 1)
    with pytest.raises(Unauthorized, match="may not take over producer batch/kept0/manifest"):
        write(taking, "kept-0", 1)
    for batch in (1, 2):
        write(taking, "handed-0", batch)
    with pytest.raises(Unauthorized, match="belongs to another account"):
        write(before, "handed-0", 3)
    write(before, "kept-0", 1)


def test_rows_that_are_sent_directly_are_taken_over_too(guarded: LocalCluster) -> None:
    def write(options: SinkOptions, batch: int) -> None:
        sink = DirectSink(options, Numbering("handed-0", 7, batch))
        try:
            sink.add(pa.record_batch({"value": pa.array([b"row"], pa.binary())}))
            sink.finish()
        finally:
            sink.close()

    write(options_of(guarded, WRITER), 0)
    with pytest.raises(Unauthorized, match="belongs to another account"):
        write(options_of(guarded, SUCCESSOR), 1)
    write(options_of(guarded, SUCCESSOR, takeOver="true"), 1)
    with pytest.raises(Unauthorized, match="belongs to another account"):
        write(options_of(guarded, WRITER), 2)
