"""config/*.json: fastjson's look, its not-quite JSON, and the .bak rules.

Source: docs/spec/store.md 5.3, 5.4.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commitlog.errors import StoreDamaged
from commitlog.files.content import Content
from commitlog.files.system import OS_FILES, OsFileSystem
from commitlog.store.config_json import (
    backup_path,
    load_config,
    parse_config,
    render_config,
    save_config,
)

from ..strategies import random_search, texts

scalars = texts | st.integers() | st.booleans()
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(texts, inner, max_size=3)
        | st.dictionaries(st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


def with_text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): with_text_keys(item) for key, item in value.items()}
    return [with_text_keys(item) for item in value] if isinstance(value, list) else value


@random_search
@given(st.dictionaries(texts, values, max_size=4))
def test_round_trip_with_integer_keys_as_text(value: dict[str, Any]) -> None:
    assert parse_config(render_config(value)) == with_text_keys(value)


@random_search
@given(
    st.dictionaries(
        texts,
        st.recursive(scalars, lambda inner: st.lists(inner, max_size=3), max_leaves=5),
        max_size=3,
    )
)
def test_any_json_object_is_read_as_json_reads_it(value: dict[str, Any]) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert parse_config(text.encode()) == json.loads(text)


@random_search
@given(st.binary(max_size=60) | st.text('{}[]",:01 \\a\n', max_size=60).map(str.encode))
def test_rubbish_is_damage_and_nothing_else(data: bytes) -> None:
    with contextlib.suppress(StoreDamaged):
        assert isinstance(parse_config(data), dict)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"5",
        b"\xff",
        b'{"a":NaN}',
        b"{" * 5,
        b'{"a":' * 100_000,
        b'{"a":' + b"1" * 10_000 + b"}",
        b'{"a":1}{',
    ],
)
def test_what_is_no_object_is_damage(data: bytes) -> None:
    with pytest.raises(StoreDamaged) as caught:
        parse_config(data, "topics.json")
    assert caught.value.path == "topics.json"


def test_the_look_of_fastjson() -> None:
    """The shape of docs/spec/store.md 5.4, every field on its own line."""
    value = {
        "dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": 1700000000000},
        "groupTopicMap": {"shop": ["orders"]},
        "offsetTable": {"orders@shop": {0: 17, 1: 20}},
        "none": None,
        "empty": {},
        "flag": True,
    }
    assert render_config(value).decode() == (
        "{\n"
        '\t"dataVersion":{\n'
        '\t\t"counter":1,\n'
        '\t\t"stateVersion":0,\n'
        '\t\t"timestamp":1700000000000\n'
        "\t},\n"
        '\t"groupTopicMap":{\n'
        '\t\t"shop":["orders"]\n'
        "\t},\n"
        '\t"offsetTable":{\n'
        '\t\t"orders@shop":{0:17,1:20\n'
        "\t\t}\n"
        "\t},\n"
        '\t"empty":{},\n'
        '\t"flag":true\n'
        "}"
    )


def test_what_java_wrote_in_the_examples_of_the_format() -> None:
    text = '{\n\t"dataVersion":{"counter":2},\n\t"offsetTable":{3:12,-4 :1,\n 5:0\n\t}\n}'
    assert parse_config(text.encode()) == {
        "dataVersion": {"counter": 2},
        "offsetTable": {"3": 12, "-4": 1, "5": 0},
    }
    tricky = '{"a{1:2":"x,3:4","b\\"{5:6":[7,8]}'
    assert parse_config(tricky.encode()) == {"a{1:2": "x,3:4", 'b"{5:6': [7, 8]}
    assert parse_config(b'\xef\xbb\xbf{"a":1}') == {"a": 1}


def test_escapes() -> None:
    text = render_config({"a": '"\\\b\t\n\f\r\x01\x7f\u2028/订😀'}).decode()
    assert text == '{\n\t"a":"\\"\\\\\\b\\t\\n\\f\\r\\u0001\\u007F\\u2028/订😀"\n}'


def test_save_keeps_what_was(tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    assert load_config(OS_FILES, path) is None
    for number in range(3):
        save_config(OS_FILES, path, {"n": number})
    assert load_config(OS_FILES, path) == {"n": 2}
    assert parse_config(backup_path(path).read_bytes()) == {"n": 1}
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["topics.json", "topics.json.bak"]


@pytest.mark.parametrize("main", [None, b"", b"{", b"\xff"])
def test_the_backup_stands_in(tmp_path: Path, main: bytes | None) -> None:
    """An unreadable file must not be renamed over the good .bak by the next save."""
    path = tmp_path / "topics.json"
    backup_path(path).write_bytes(render_config({"n": 1}))
    if main is not None:
        path.write_bytes(main)
    assert load_config(OS_FILES, path) == {"n": 1}
    assert not path.exists()
    assert parse_config(backup_path(path).read_bytes()) == {"n": 1}


@pytest.mark.parametrize("backup", [None, b"", b"}"])
def test_unreadable_content_is_never_removed_when_it_is_all_there_is(
    tmp_path: Path, backup: bytes | None
) -> None:
    path = tmp_path / "topics.json"
    path.write_bytes(b"{")
    if backup is not None:
        backup_path(path).write_bytes(backup)
    with pytest.raises(StoreDamaged):
        load_config(OS_FILES, path)
    assert path.read_bytes() == b"{"


def test_empty_files_alone_mean_a_new_store(tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    path.write_bytes(b"")
    assert load_config(OS_FILES, path) is None
    backup_path(path).write_bytes(b"")
    assert load_config(OS_FILES, path) is None


class Crash(Exception):
    pass


class CrashingFiles(OsFileSystem):
    """Dies before its n-th change of the folder."""

    def __init__(self, changes: int) -> None:
        self.left = changes

    def _step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Crash

    def rename(self, source: Path, target: Path) -> None:
        self._step()
        super().rename(source, target)

    def write_atomic(self, path: Path, data: Content, *, staging: Path | None = None) -> None:
        self._step()
        super().write_atomic(path, data, staging=staging)

    def sync_dir(self, path: Path) -> None:
        self._step()
        super().sync_dir(path)


@pytest.mark.parametrize("changes", range(5))
def test_a_crash_leaves_the_old_or_the_new(tmp_path: Path, changes: int) -> None:
    path = tmp_path / "topics.json"
    save_config(OS_FILES, path, {"n": "older"})
    save_config(OS_FILES, path, {"n": "old"})
    run: Callable[[], None] = lambda: save_config(CrashingFiles(changes), path, {"n": "new"})  # noqa: E731
    if changes == 4:
        run()
    else:
        with pytest.raises(Crash):
            run()
    assert load_config(OS_FILES, path) == {"n": "new" if changes >= 3 else "old"}
