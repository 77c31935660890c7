"""Exactly once where accounts are asked for: it works, or is refused before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from cluster.local.launcher import LocalCluster
from pipeline.options import OptionError
from pipeline.sink.driver import commit_batch, prepare_staging
from pipeline.sink.numbering import Numbering
from pipeline.sink.options import STAGING, SinkOptions, sink_options
from pipeline.sink.task import StagingSink

from ..source.guarded import MASTER, READER, WRITER, guarded_cluster


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
        prepare_staging(options_of(guarded, WRITER))
    prepare_staging(options_of(guarded, MASTER))
    with pytest.raises(OptionError, match=f"may not: .*no SUB of topic {STAGING}"):
        prepare_staging(options_of(guarded, READER))
    with pytest.raises(OptionError, match="the topic elsewhere"):
        prepare_staging(options_of(guarded, WRITER, stagingTopic="elsewhere"))
    options = options_of(guarded, WRITER)
    prepare_staging(options)
    sink = StagingSink(options, Numbering("0123456789abcdef", 0, 0))
    sink.add(pa.record_batch({"value": pa.array([b"x" * 1000] * 500, pa.binary())}))
    staged = sink.finish()
    assert staged.places
    commit_batch(options, "0123456789abcdef", 0, [staged])
