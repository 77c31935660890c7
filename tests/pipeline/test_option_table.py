"""Every option of docs/spec/pipeline.md 3.2, 3.4, and the tests that hold it to its word.

A row names its options and its contract tests. It fails when a test is not there (any more), when
no test of the row speaks of one of its options, when an option that the code takes has no row, and
when a README that users read does not name it.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")

from pipeline.options import LOG_OPTION_NAMES
from pipeline.sink.options import OPTION_NAMES as SINK_OPTION_NAMES
from pipeline.source.options import OPTION_NAMES

HERE = Path(__file__).parent
READMES = Path(__file__).parents[2] / "pipeline"


class Row(NamedTuple):
    """`options` as users write them, parted by spaces; `tests`: file → functions."""

    options: str
    tests: dict[str, tuple[str, ...]]


READ, RAW = "source/test_read.py", "source/test_raw.py"
OPTIONS, CONTRACT = "source/test_options.py", "source/test_contract.py"
TASK, SINK_OPTIONS = "sink/test_task.py", "sink/test_options.py"
BATCH, STREAM = "spark/test_topic_batch.py", "spark/test_topic_stream.py"
PORTED = "spark/test_ported_jobs.py"
LOG, LOG_SPARK = "test_rawlog.py", "spark/test_log_source.py"

SOURCE: dict[str, Row] = {
    "servers": Row(
        "bootstrap.servers servers nameServer",
        {
            OPTIONS: ("test_the_servers_have_aliases",),
            READ: ("test_any_node_names_the_name_servers",),
        },
    ),
    "what": Row(
        "subscribe subscribePattern assign",
        {
            OPTIONS: ("test_three_ways_to_say_what_is_read",),
            READ: (
                "test_assigned_queues_only",
                "test_a_pattern_finds_topics_and_none_of_the_stores_own",
            ),
        },
    ),
    "offsets": Row(
        "startingOffsets endingOffsets",
        {
            READ: ("test_starting_and_ending_offsets", "test_every_queue_must_be_named"),
            BATCH: ("test_offsets_of_each_queue",),
        },
    ),
    "times": Row("startingTimestamp endingTimestamp", {READ: ("test_times",)}),
    "times of queues": Row(
        "startingOffsetsByTimestamp endingOffsetsByTimestamp startingOffsetsByTimestampStrategy",
        {READ: ("test_times", "test_a_time_behind_everything")},
    ),
    "rows of a micro-batch": Row(
        "maxOffsetsPerTrigger",
        {
            STREAM: ("test_available_now_drains_in_limited_batches_and_tells_the_lag",),
        },
    ),
    "bytes of a micro-batch": Row(
        "maxBytesPerTrigger",
        {
            STREAM: ("test_bytes_limit_a_micro_batch",),
        },
    ),
    "least of a micro-batch": Row(
        "minOffsetsPerTrigger maxTriggerDelay",
        {STREAM: ("test_few_messages_wait_for_more_but_not_for_ever",)},
    ),
    "many tasks": Row("minPartitions", {BATCH: ("test_tasks_follow_the_partition_options",)}),
    "few tasks": Row(
        "maxPartitions bytesPerPartition recordsPerPartition",
        {
            CONTRACT: ("test_tasks_are_as_few_as_wanted",),
            READ: (
                "test_tasks_of_any_size_read_the_same",
                "test_no_task_has_more_records_than_wanted",
            ),
        },
    ),
    "loss": Row(
        "failOnDataLoss",
        {
            READ: ("test_an_offset_behind_the_end_is_data_loss",),
            BATCH: ("test_data_loss_ends_the_query_or_is_skipped",),
        },
    ),
    "headers": Row("includeHeaders", {BATCH: ("test_kafkas_names_with_headers",)}),
    "columns": Row("columns", {CONTRACT: ("test_columns_that_are_not_named_are_not_made",)}),
    "filter": Row(
        "subExpression expressionType",
        {READ: ("test_the_broker_filters",), BATCH: ("test_tags_are_filtered_by_the_broker",)},
    ),
    "pushdown": Row("filterPushdown", {BATCH: ("test_comparisons_are_pushed_down",)}),
    "group": Row(
        "groupId commitOffsetsToGroup", {STREAM: ("test_positions_are_copied_to_a_group",)}
    ),
    "replica": Row(
        "readFrom consistency",
        {
            READ: ("test_replicas_that_follow_give_the_same",),
            CONTRACT: ("test_nothing_but_committed_is_read",),
        },
    ),
    "requests": Row(
        "fetch fetchBytes fetchTimeoutMs numRetries retryIntervalMs",
        {
            CONTRACT: ("test_an_answer_holds_no_more_bytes", "test_a_request_waits_so_long"),
            READ: ("test_nobody_answers",),
        },
    ),
    "checksums": Row("verifyCrc", {RAW: ("test_pulled_bytes_are_checked_too",)}),
    "client": Row(
        "client.requestTimeout client.tls client.accessKey client.secretKey client.accountFile",
        {
            OPTIONS: ("test_client_settings_pass_through", "test_accounts_and_tls"),
            "spark/test_access.py": ("test_rows_there_and_back",),
        },
    ),
    "schema": Row("schemaStyle", {BATCH: ("test_kafkas_names_with_headers",)}),
}
SINK: dict[str, Row] = {
    "servers": Row(
        "bootstrap.servers servers nameServer", {SINK_OPTIONS: ("test_servers_have_three_names",)}
    ),
    "topic": Row("topic", {TASK: ("test_topic_and_queue_can_be_columns",)}),
    "delivery": Row(
        "delivery",
        {TASK: ("test_what_is_tried_again_is_stored_once", "test_at_least_once_sends_again")},
    ),
    "staging": Row(
        "stagingTopic",
        {
            "sink/test_prepare.py": (
                "test_accounts_are_refused_before_the_write_or_can_do_all_of_it",
            )
        },
    ),
    "owner": Row(
        "takeOver",
        {
            SINK_OPTIONS: ("test_every_option_is_taken", "test_wrong_options_are_refused"),
            "sink/test_prepare.py": (
                "test_a_query_goes_on_under_another_account_that_takes_it_over",
                "test_rows_that_are_sent_directly_are_taken_over_too",
            ),
        },
    ),
    "identity": Row(
        "txnAppId txnVersion",
        {
            "spark/test_sink.py": (
                "test_a_batch_write_without_an_identity_says_that_it_is_at_least_once",
            )
        },
    ),
    "patience": Row("deliveryTimeoutMs", {TASK: ("test_a_queue_that_takes_nothing_is_given_up",)}),
    "client": Row("client.requestTimeout", {SINK_OPTIONS: ("test_every_option_is_taken",)}),
    "topics that are made": Row(
        "createTopic", {PORTED: ("test_job_9_sends_rows_to_the_topic_that_each_names",)}
    ),
    "columns of Kafka": Row(
        "schemaStyle extraColumns",
        {
            SINK_OPTIONS: (
                "test_columns_of_kafkas_connector_are_taken_and_others_ignored_or_refused",
            ),
            PORTED: ("test_job_6_writes_the_whole_row_that_it_read",),
        },
    ),
    "append only": Row("append overwrite", {"spark/test_sink.py": ("test_what_is_wrong_is_said",)}),
    "trigger": Row(
        "availableNow",
        {
            STREAM: ("test_available_now_drains_in_limited_batches_and_tells_the_lag",),
            "spark/test_sink.py": (
                "test_streaming_goes_on_after_a_restart_and_repeats_a_batch_once",
            ),
        },
    ),
}
RAW_LOG: dict[str, Row] = {
    "path": Row("path", {LOG_SPARK: ("test_sql_finds_it",)}),
    "replica": Row("replica", {LOG: ("test_a_replica_has_its_label",)}),
    "index": Row("startIndex endIndex", {LOG: ("test_bounds_of_the_index", "test_right_options")}),
    "columns": Row("columns", {LOG_SPARK: ("test_pieces_become_partitions",)}),
    "split": Row(
        "recordsPerPartition bytesPerPartition",
        {
            LOG: (
                "test_records_of_a_piece_are_counted_by_the_index",
                "test_right_options",
                "test_every_record_once_whatever_the_pieces",
            ),
            LOG_SPARK: ("test_pieces_become_partitions",),
        },
    ),
    "repair": Row("repair", {LOG: ("test_damage_is_named_or_left_out", "test_right_options")}),
    "internal": Row("includeInternal", {LOG: ("test_internal_topics_are_left_out",)}),
}
TABLES = {"source": SOURCE, "sink": SINK, "rawlog": RAW_LOG}
TAKEN = {
    "source": OPTION_NAMES,
    "sink": SINK_OPTION_NAMES,
    "rawlog": LOG_OPTION_NAMES,
}
ROWS = [(table, name) for table, rows in TABLES.items() for name in rows]


def _tests(path: Path) -> dict[str, str]:
    """Function → its text, decorators included."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            found[node.name] = "\n".join(lines[first - 1 : node.end_lineno])
    return found


@pytest.mark.parametrize(("table", "name"), ROWS, ids=[" ".join(row) for row in ROWS])
def test_a_row_has_its_tests(table: str, name: str) -> None:
    row = TABLES[table][name]
    assert row.tests, f"nothing holds {row.options} to its word"
    said = ""
    for file, functions in row.tests.items():
        known = _tests(HERE / file)
        for function in functions:
            assert function in known, f"{file} has no {function}, which is to test {row.options}"
            said += known[function]
    for option in row.options.split():
        named = re.search(rf"(?<!\w){re.escape(option)}(?!\w)", said)
        assert named, f"no test of the row speaks of {option}"


@pytest.mark.parametrize("table", TABLES)
def test_every_option_has_a_row(table: str) -> None:
    rows = {option for row in TABLES[table].values() for option in row.options.split()}
    assert set(TAKEN[table]) <= rows


@pytest.mark.parametrize("table", TABLES)
def test_every_option_is_explained(table: str) -> None:
    text = (READMES / table / "README.md").read_text(encoding="utf-8")
    assert [name for name in TAKEN[table] if name not in text] == []
