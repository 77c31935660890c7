"""Raw ranges: spans cover every message once; damage and refusals end in pulls, not in loss."""

from __future__ import annotations

import concurrent.futures
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")

from cluster.errors import RequestNotSupported, Unauthorized
from cluster.local.launcher import LocalCluster
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import Frame
from commitlog.errors import StoreDamaged
from pipeline.source import raw, reading
from pipeline.source.options import SourceOptions
from pipeline.source.plan import batch_ranges, tasks
from pipeline.source.raw import GAP_BYTES_MAX, Places, cut_spans, fetched, is_sparse, places_of
from pipeline.source.records import batches
from pipeline.source.remote import Remote, SourceError, remote

from .filled import expected, fill, identity, new_topic, options


def _places(gaps: list[int], sizes: list[int]) -> Places:
    size = np.array(sizes, dtype=np.int64)
    before = np.array(gaps, dtype=np.int64) + 48
    position = np.cumsum(before) + np.concatenate(([0], np.cumsum(size)[:-1]))
    numbers = np.arange(len(size), dtype=np.int64)
    return Places(position, size, np.zeros(len(size), np.int64), numbers)


@given(
    st.lists(
        st.tuples(st.sampled_from([0, 1, 500, 1 << 16, 1 << 20]), st.integers(91, 5000)),
        min_size=1,
        max_size=60,
    ),
    st.integers(1, 20_000),
)
def test_spans_cover_every_message_once(items: list[tuple[int, int]], size_max: int) -> None:
    places = _places([gap for gap, _ in items], [size for _, size in items])
    spans = cut_spans(places, size_max)
    assert [n for first, last in spans for n in range(first, last)] == list(range(len(items)))
    for first, last in spans:
        part = places.part(first, last)
        width = part.position[-1] + part.size[-1] - part.position[0] + 48
        assert width <= size_max or last == first + 1
        gaps = part.position[1:] - 48 - (part.position[:-1] + part.size[:-1])
        assert (gaps <= GAP_BYTES_MAX).all(), "bytes of others are asked around"


def test_where_others_messages_lie_between_pulls_cost_less() -> None:
    assert not is_sparse(_places([0] * 10, [200] * 10))
    assert is_sparse(_places([40_000] * 10, [200] * 10))
    assert not is_sparse(_places([1 << 20] * 10, [200] * 10)), "those are not fetched along"
    assert not is_sparse(Places(*[np.empty(0, np.int64)] * 4))


def test_what_is_no_hash_may_be_anything() -> None:
    tags = np.array([7, -7, 8, -(1 << 31), -(1 << 31) - 1, 1 << 31, 1_700_000_000_000])
    wanted = frozenset({7, -(1 << 31)})
    assert raw._may_match(tags, wanted).tolist() == [True, False, False, True, True, True, True]


class Bent:
    """A remote whose raw answers pass through `bend`."""

    def __init__(self, inner: Remote, bend: Callable[[int, bytes], bytes]) -> None:
        self._inner, self._bend = inner, bend
        self.codes: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def ask(self, broker: str, topic: str, code: int, *rest: Any, **more: Any) -> Frame:
        self.codes.append(code)
        answer = await self._inner.ask(broker, topic, code, *rest, **more)
        return answer._replace(body=self._bend(code, answer.body))

    def start(self, broker: str, topic: str, code: int, *rest: Any, **more: Any) -> Any:
        self.codes.append(code)
        answer = self._inner.start(broker, topic, code, *rest, **more).result()
        bent: concurrent.futures.Future[Frame] = concurrent.futures.Future()
        bent.set_result(answer._replace(body=self._bend(code, answer.body)))
        return bent


def _read(found: SourceOptions, place: Any) -> list[dict[str, Any]]:
    planned = tasks(remote(found), found, batch_ranges(remote(found), found))
    schema = found.schema()
    return [
        row
        for task in planned
        for chunk in reading.chunks(place, found, task)
        for batch in batches(chunk, schema)
        for row in batch.to_pylist()
    ]


def _flip(at: int) -> Callable[[int, bytes], bytes]:
    """One bit of every raw range, `at` bytes from its end."""

    def bend(code: int, body: bytes) -> bytes:
        if code != RequestCode.FETCH_LOG_RANGE or not body:
            return body
        bent = bytearray(body)
        bent[-at] ^= 1
        return bytes(bent)

    return bend


@pytest.mark.parametrize("at", [5, 60, 170], ids=["properties", "head", "further up"])
def test_damage_is_found_and_the_messages_are_pulled(
    local_cluster: LocalCluster, at: int, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic(local_cluster)
    sent = fill(local_cluster, topic)
    found = options(local_cluster, {"subscribe": topic, "fetch": "raw", "fetchBytes": "2k"})
    place = Bent(remote(found), _flip(at))
    with caplog.at_level(logging.WARNING):
        got = _read(found, place)
    assert identity(got) == expected(sent)
    whole = _read(found, remote(found))
    same = [(row["queue"], row["offset"], row["value"]) for row in whole]
    assert [(row["queue"], row["offset"], row["value"]) for row in got] == same, "the same order"
    assert "these messages are pulled instead" in caplog.text
    assert RequestCode.PULL_MESSAGE in place.codes


def test_raw_ranges_carry_term_and_index(local_cluster: LocalCluster) -> None:
    topic = new_topic(local_cluster)
    fill(local_cluster, topic)
    found = options(local_cluster, {"subscribe": topic, "fetch": "raw"})
    place = Bent(remote(found), lambda _, body: body)
    rows = _read(found, place)
    assert RequestCode.PULL_MESSAGE not in place.codes
    assert all(row["term"] >= 1 for row in rows)
    assert len({row["log_index"] for row in rows}) == 40
    assert [row["log_index"] for row in rows] == sorted(row["log_index"] for row in rows)


def test_short_answers_are_completed(local_cluster: LocalCluster) -> None:
    topic = new_topic(local_cluster)
    sent = fill(local_cluster, topic)
    found = options(local_cluster, {"subscribe": topic, "fetch": "raw", "retryIntervalMs": "1"})
    calls = iter(range(10_000))

    def bend(code: int, body: bytes) -> bytes:
        number = next(calls)
        if code == RequestCode.FETCH_QUEUE_RANGE:
            return body[: 20 * (number % 3)]
        return body[: 3000 if number % 2 else 0]

    assert identity(_read(found, Bent(remote(found), bend))) == expected(sent)


@pytest.mark.parametrize("error", [Unauthorized, RequestNotSupported])
def test_who_may_not_fetch_raw_pulls(local_cluster: LocalCluster, error: type[Exception]) -> None:
    topic = new_topic(local_cluster)
    sent = fill(local_cluster, topic)

    def refuse(code: int, body: bytes) -> bytes:
        if code == RequestCode.FETCH_QUEUE_RANGE:
            raise error("not for you")
        return body

    found = options(local_cluster, {"subscribe": topic})
    assert identity(_read(found, Bent(remote(found), refuse))) == expected(sent)
    only_raw = options(local_cluster, {"subscribe": topic, "fetch": "raw"})
    with pytest.raises(error, match="not for you"):
        _read(only_raw, Bent(remote(only_raw), refuse))


def test_pulled_bytes_are_checked_too(local_cluster: LocalCluster) -> None:
    topic = new_topic(local_cluster)
    fill(local_cluster, topic, 8)

    def bend(code: int, body: bytes) -> bytes:
        return body.replace(b"body-3", b"body-4")

    found = options(local_cluster, {"subscribe": topic, "fetch": "pull"})
    with pytest.raises(StoreDamaged, match="does not fit its checksum"):
        _read(found, Bent(remote(found), bend))
    trusting = options(local_cluster, {"subscribe": topic, "fetch": "pull", "verifyCrc": "false"})
    bodies = [row["value"] for row in _read(trusting, Bent(remote(trusting), bend))]
    assert bodies.count(b"body-4") == 2


def test_places_are_in_order_of_the_log(local_cluster: LocalCluster) -> None:
    topic = new_topic(local_cluster)
    sent = fill(local_cluster, topic)
    found = options(local_cluster, {"subscribe": topic})
    place = remote(found)
    (task,) = tasks(place, found, batch_ranges(place, found))
    places = places_of(place, found, task)
    assert (np.diff(places.position) > 0).all()
    chunks = list(fetched(place, found, task, places))
    assert sum(len(chunk.found) for chunk in chunks) == len(sent)


@pytest.mark.parametrize(
    ("error", "plans"), [(Unauthorized("no group"), True), (SourceError("nobody answers"), False)]
)
def test_a_plan_is_never_a_guess_that_another_attempt_would_not_make(
    local_cluster: LocalCluster, error: Exception, plans: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(local_cluster)
    fill(local_cluster, topic)
    found = options(local_cluster, {"subscribe": topic})
    place = remote(found)
    ranges = batch_ranges(place, found)

    def refuse(*_: object) -> int:
        raise error

    monkeypatch.setattr("pipeline.source.plan.first_bytes", refuse)
    if plans:
        assert tasks(place, found, ranges) == tasks(place, found, ranges)
    else:
        with pytest.raises(SourceError, match="nobody answers"):
            tasks(place, found, ranges)
