"""RaftConfig: impossible relations are refused with a sentence that names both values."""

from __future__ import annotations

import ast
import inspect
from dataclasses import fields, replace
from typing import Any

import pytest

from dledger import config as module
from dledger.config import RaftConfig

PEERS = {"n0": ("127.0.0.1", 20911), "n1": ("127.0.0.1", 20912), "n2": ("127.0.0.1", 20913)}
GOOD = RaftConfig("n0", PEERS, "data")


def test_the_defaults_are_valid_and_reach_the_core() -> None:
    GOOD.validate()
    core = GOOD.core()
    assert core.voters == ("n0", "n1", "n2")
    assert (core.heartbeat_interval, core.election_timeout_min, core.election_timeout_max) == (
        0.1,
        0.3,
        0.6,
    )


def test_every_field_says_what_more_and_less_cost() -> None:
    source = inspect.getsource(module).splitlines()
    classes = [n for n in ast.parse("\n".join(source)).body if isinstance(n, ast.ClassDef)]
    (tree,) = [n for n in classes if n.name == "RaftConfig"]
    lines = {
        node.target.id: node.lineno
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    assert set(lines) == {field.name for field in fields(RaftConfig)}
    shared = {"reconnect_max_ms", "election_timeout_max_ms", "index_file_size"}
    for name, line in lines.items():
        assert name in shared or source[line - 2].strip().startswith("#:"), name


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"node_id": "n9"}, ("n9", "n0, n1, n2")),
        ({"peers": {"a-b": ("127.0.0.1", 1)}, "node_id": "a-b"}, ("a-b",)),
        ({"dial": {"n7": ("127.0.0.1", 1)}}, ("n7",)),
        ({"heartbeat_ms": 200}, ("0.2", "0.3")),
        ({"election_timeout_min_ms": 600}, ("0.6",)),
        ({"frame_bytes_max": 32 << 20}, (str(32 << 20), str(16 << 20))),
        ({"bulk_queue_bytes_max": 1}, ("bulk_queue_bytes_max 1 ", str(16 << 20))),
        ({"entry_size_max": 33 << 20}, (str(33 << 20), str(32 << 20))),
        ({"data_file_size": 1 << 20}, (str(1 << 20), "entry_size_max")),
        ({"uncommitted_bytes_max": 1000}, ("1000", "entry_size_max")),
        ({"reconnect_min_ms": 900}, ("900", "500")),
        ({"connection_timeout_ms": 100}, ("100", "600")),
        ({"preferred_leader": "n5"}, ("n5",)),
        ({"secret": "short"}, ("5 characters",)),
        ({"peers": PEERS | {"n1": ("127.0.0.1", 70_000)}}, ("peers", "70000", "n1", "65535")),
        ({"dial": {"n1": ("127.0.0.1", -1)}}, ("dial", "-1", "n1")),
        ({"listen": ("127.0.0.1", 65_536)}, ("listen", "65536")),
        ({"listen": ("0.0.0.0", 1)}, ("0.0.0.0:1", "secret")),
        ({"listen": ("192.0.2.1", 1)}, ("192.0.2.1:1", "secret")),
        (
            {"peers": PEERS | {"n0": ("0.0.0.0", 1)}, "secret": "long enough"},
            ("0.0.0.0", "reached at"),
        ),
    ],
)
def test_what_cannot_work_is_refused(change: dict[str, Any], words: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        replace(GOOD, **change).validate()
    for word in words:
        assert word in str(refused.value)


def test_the_wildcard_is_fine_with_an_advertised_address_and_a_secret() -> None:
    config = replace(GOOD, listen=("0.0.0.0", 20911), secret="long enough")
    config.validate()
    assert config.listen_address() == ("0.0.0.0", 20911)
    assert config.source_address() is None
    assert "long enough" not in repr(config)


def test_addresses_to_dial_and_to_come_from() -> None:
    config = replace(GOOD, dial={"n1": ("127.0.0.9", 5)})
    assert config.dial_address("n1") == ("127.0.0.9", 5)
    assert config.dial_address("n2") == PEERS["n2"]
    assert config.source_address() == ("127.0.0.1", 0)
    assert replace(GOOD, source_host="127.0.0.7").source_address() == ("127.0.0.7", 0)
