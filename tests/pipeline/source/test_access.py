"""Reading where accounts and TLS are asked for: raw ranges for administrators, pulls for others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")

from cluster.client import Tls
from cluster.errors import Unauthorized
from cluster.local.launcher import LocalCluster
from cluster.protocol.json_body import MessageQueue
from pipeline.source.bounds import bounds
from pipeline.source.offsets import CheckpointError
from pipeline.source.options import SourceOptions, source_options
from pipeline.source.plan import batch_ranges, tasks
from pipeline.source.raw import places_of
from pipeline.source.reading import read
from pipeline.source.remote import Remote, SourceError, remote
from pipeline.source.ways import check, choose

from .filled import rows
from .guarded import MASTER, PEM, READER, SENT, TLS, guarded_cluster


@pytest.fixture(scope="module")
def guarded(
    tmp_path_factory: pytest.TempPathFactory, new_address: Callable[[], str]
) -> Iterator[LocalCluster]:
    hosts = [new_address() for _ in range(4)]
    with guarded_cluster(tmp_path_factory.mktemp("guarded"), hosts, "permissive") as cluster:
        yield cluster


def _read(cluster: LocalCluster, given: Mapping[str, str]) -> set[bytes]:
    base = {"bootstrap.servers": cluster.nameserver, "subscribe": "orders", "numRetries": "3"}
    found = source_options({**base, **given}, streaming=False)
    return {row["value"] for row in rows(found)}


EVERYTHING = {b"%d" % number for number in range(SENT)}


def test_an_administrator_reads_raw_ranges(guarded: LocalCluster) -> None:
    assert _read(guarded, {**MASTER, "fetch": "raw"}) == EVERYTHING


def test_others_pull(guarded: LocalCluster) -> None:
    assert _read(guarded, READER) == EVERYTHING
    with pytest.raises(Unauthorized):
        _read(guarded, {**READER, "fetch": "raw"})


def test_nobody_reads_nothing(guarded: LocalCluster) -> None:
    with pytest.raises((Unauthorized, SourceError)):
        _read(guarded, {})
    with pytest.raises((Unauthorized, SourceError)):
        _read(guarded, {**READER, "client.secretKey": "guessed"})


def test_a_refusal_is_met_before_anything_is_read(guarded: LocalCluster) -> None:
    base = {"bootstrap.servers": guarded.nameserver, "subscribe": "orders", **READER}
    found = source_options(base, streaming=False)
    place = remote(found)
    (task,) = tasks(place, found, batch_ranges(place, found))
    with pytest.raises(Unauthorized):
        places_of(place, found, task)


def test_tls_settings_reach_the_client() -> None:
    given = {"servers": "h:1", "subscribe": "t", **TLS}
    from pipeline.source.client_options import client_config

    config = client_config(source_options(given, streaming=False).client)
    assert config.tls == Tls(authority=str(PEM / "server.pem"), check_host=False)
    assert config.tls.context().check_hostname is False


def test_the_way_of_reading_is_chosen_once_and_kept(guarded: LocalCluster) -> None:
    """An account that gains or loses a right meanwhile: the former way, or a refusal."""
    place, options, queues = _asked(guarded, MASTER)
    assert choose(place, options, queues) == "mixed"
    assert choose(place, options, []) == ""
    check(place, options, "mixed", queues)
    check(place, options, "pull", queues)
    theirs, fewer, _ = _asked(guarded, READER)
    assert choose(theirs, fewer, queues) == "pull"
    check(theirs, fewer, "pull", queues)
    for way in ("mixed", "raw"):
        with pytest.raises(CheckpointError, match="refuses them now"):
            check(theirs, fewer, way, queues)
    for fetch, way in (("pull", "mixed"), ("raw", "pull"), ("raw", "mixed")):
        with pytest.raises(CheckpointError, match=f"fetch is '{fetch}' and .* with '{way}'"):
            check(place, replace(options, fetch=fetch), way, queues)
    assert choose(place, replace(options, fetch="raw"), queues) == "raw"


def test_a_task_does_not_change_the_way(guarded: LocalCluster) -> None:
    place, options, _ = _asked(guarded, READER)
    (task,) = tasks(place, options, batch_ranges(place, options))
    with pytest.raises(SourceError, match="does not change its order of rows"):
        list(read(replace(options, fetch="mixed"), task))


def _asked(
    cluster: LocalCluster, account: Mapping[str, str]
) -> tuple[Remote, SourceOptions, list[MessageQueue]]:
    base = {"bootstrap.servers": cluster.nameserver, "subscribe": "orders", "numRetries": "3"}
    options = source_options({**base, **account}, streaming=False)
    place = remote(options)
    return place, options, list(bounds(place, options))
