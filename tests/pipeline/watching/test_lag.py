"""A query's progress → lag → metrics."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")

from cluster.protocol.json_body import MessageQueue
from pipeline.source.offsets import QueueRange, to_json
from pipeline.watching.lag import METRIC_NAMES, QueryLag, exposition, topic_lags, unread

A0, A1, B0 = (
    MessageQueue("a", "broker-a", 0),
    MessageQueue("a", "broker-a", 1),
    MessageQueue("b/c", "broker-a", 0),
)
PANEL = Path(__file__).parents[3] / "pipeline/watching/grafana.json"


def text(offsets: dict[MessageQueue, int]) -> str:
    return json.dumps(to_json(offsets, {}))


def test_unread_messages_are_those_between_two_offsets() -> None:
    """A queue that the batch did not know yet counts from its beginning."""
    found = unread(text({A0: 5, A1: 7}), text({A0: 9, A1: 7, B0: 3}))
    assert found == [QueueRange(A0, 5, 9), QueueRange(A1, 7, 7), QueueRange(B0, 0, 3)]
    assert unread(text({A0: 9}), text({A0: 2}))[0].size == 0, "the topic was made anew"


@pytest.mark.parametrize("other", ["", "null", "17", "not JSON", '{"logOffset": 3}', "[]"])
def test_a_source_that_is_not_ours_has_no_lag(other: str) -> None:
    assert unread(other, other) == []


def test_lag_of_a_topic_is_over_its_queues() -> None:
    ranges = [QueueRange(A0, 0, 30), QueueRange(A1, 7, 7), QueueRange(B0, 1, 2)]
    first, second = topic_lags(ranges, {A0: 1_000, B0: 9_000}, {"a": 120}, 10_500)
    assert (first.queues, first.messages, first.least, first.mean, first.most) == (2, 30, 0, 15, 30)
    assert (first.seconds, first.row_bytes) == (9.5, 120)
    assert (second.topic, second.seconds, second.row_bytes) == ("b/c", 1.5, None)


def test_seconds_are_unknown_unless_every_lagging_queue_has_told() -> None:
    ranges = [QueueRange(A0, 0, 30), QueueRange(A1, 0, 1)]
    assert topic_lags(ranges, {A0: 1_000}, {}, 2_000)[0].seconds is None
    assert topic_lags([QueueRange(A0, 3, 3)], {}, {}, 2_000)[0].seconds == 0
    assert topic_lags(ranges, {A0: 3_000, A1: 2_500}, {}, 2_000)[0].seconds == 0, "clocks differ"


def test_metrics_are_text_for_prometheus() -> None:
    lags = topic_lags([QueueRange(A0, 0, 30)], {A0: 1_000}, {"a": 100}, 3_000)
    found = exposition([QueryLag('na"me', 7, 10.5, 20.0, lags)]).splitlines()
    assert 'dledger_spark_lag_messages{query="na\\"me",topic="a"} 30' in found
    assert 'dledger_spark_lag_seconds{query="na\\"me",topic="a"} 2' in found
    assert 'dledger_spark_processed_bytes_per_second{query="na\\"me"} 2000' in found
    assert 'dledger_spark_input_rows_per_second{query="na\\"me"} 10.5' in found
    assert {line.split()[2] for line in found if line.startswith("# TYPE")} == set(METRIC_NAMES)
    assert exposition([]) == ""


def test_numbers_are_whole_however_large() -> None:
    lags = topic_lags([QueueRange(A0, 0, 12_345_678_901)], {}, {}, 0)
    found = exposition([QueryLag("q", 1_234_567, 0.1, 0.1, lags)])
    assert 'dledger_spark_batch{query="q"} 1234567\n' in found
    assert 'dledger_spark_lag_messages{query="q",topic="a"} 12345678901\n' in found
    assert 'dledger_spark_input_rows_per_second{query="q"} 0.1\n' in found


def test_bytes_are_unknown_for_queries_of_two_topics_and_without_brokers() -> None:
    two = topic_lags([QueueRange(A0, 0, 1), QueueRange(B0, 0, 1)], {}, {"a": 1, "b/c": 1}, 0)
    one = topic_lags([QueueRange(A0, 0, 1)], {}, {}, 0)
    for lags in (two, one):
        assert "bytes_per_second" not in exposition([QueryLag("q", 0, 1.0, 1.0, lags)])


def test_the_panel_shows_metrics_that_exist_and_all_of_them() -> None:
    shown = PANEL.read_text(encoding="utf-8")
    json.loads(shown)
    assert set(re.findall(r"dledger_spark_\w+", shown)) == set(METRIC_NAMES)
