from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pytest

from cluster.commands import bench
from cluster.commands.errors import (
    FAILED,
    NOT_THERE,
    RETRY,
    UNKNOWN,
    USAGE,
    CommandError,
    exit_code_of,
    is_expected,
)
from cluster.commands.output import emit, table, to_json
from cluster.errors import InvalidRequest, NotLeader, SendTimeout
from cluster.settings.settings import SettingsError

ROWS = [{"node": "n0", "term": 3, "lag": None}, {"node": "n1-long", "term": 12, "lag": 0.5}]


def test_a_table_aligns_text_left_and_numbers_right() -> None:
    assert table(ROWS, ()) == ("NODE     TERM  LAG\nn0          3    -\nn1-long    12  0.5\n")


def test_a_table_of_nothing_shows_its_columns() -> None:
    assert table([], ("topic", "queue_id")) == "TOPIC  QUEUE ID\n"


class Kind(Enum):
    NODE = "node"


@dataclass
class Found:
    folder: Path
    kind: Kind


@pytest.mark.parametrize("name", ["n0", "n\udcff"])
def test_json_has_the_same_of_a_name_that_is_no_utf_8(name: str) -> None:
    found = {"found": [Found(Path(name), Kind.NODE)], 1: None}
    assert json.loads(to_json(found)) == {"found": [{"folder": name, "kind": "node"}], "1": None}


def test_json_has_every_field_whatever_the_table_shows(capsys: pytest.CaptureFixture[str]) -> None:
    emit(ROWS, "json", ("node",))
    assert json.loads(capsys.readouterr().out) == ROWS
    emit(ROWS, "jsonl", ("node",))
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == ROWS


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotLeader(None), RETRY),
        (SendTimeout("late"), UNKNOWN),
        (InvalidRequest("no"), FAILED),
        (SettingsError("no"), USAGE),
        (FileNotFoundError("x"), NOT_THERE),
        (ConnectionRefusedError("x"), RETRY),
    ],
)
def test_exit_codes_follow_what_the_error_says_of_itself(error: Exception, code: int) -> None:
    assert exit_code_of(error) == code
    assert is_expected(error)


def test_a_bug_is_not_an_expected_error() -> None:
    assert not is_expected(KeyError("x"))


def test_bench_options_are_numbers_lists_and_text() -> None:
    assert bench.parse(("a=1", "b=0.5", "c=1,64", "d=/tmp/x", "e=true")) == {
        "a": 1,
        "b": 0.5,
        "c": (1, 64),
        "d": "/tmp/x",
        "e": True,
    }
    with pytest.raises(CommandError, match="not of the form KEY=VALUE"):
        bench.parse(("seconds",))


def test_bench_says_which_option_is_unknown() -> None:
    with pytest.raises(CommandError, match="unexpected keyword argument 'secnds'"):
        bench.run("states", ("secnds=1",))


@pytest.mark.parametrize(
    ("result", "good"),
    [
        ({}, True),
        ({"passed": False}, False),
        ({"bars": {"rate_met": True, "rate_min": 5}}, True),
        ({"bars": {"rate_met": True, "p50_met": False}}, False),
    ],
)
def test_a_bench_fails_below_any_bar(result: dict[str, object], good: bool) -> None:
    assert bench.passed(result) is good
