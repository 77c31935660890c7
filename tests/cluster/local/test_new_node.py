"""Which settings a node has in common with the others of its group."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from cluster.local.new_node import OWN_SETTINGS, NewNode, Place, Shared
from cluster.settings.node import SECTIONS


@pytest.mark.parametrize("section", SECTIONS)
def test_every_section_says_what_is_a_nodes_own(section: str) -> None:
    """All else of it is taken from another node's file."""
    assert OWN_SETTINGS[section] <= {field.name for field in fields(SECTIONS[section])}


@pytest.mark.parametrize(("count", "port"), [(1, None), (2, None), (3, 11005)])
def test_a_node_of_three_has_a_relay_port(tmp_path: Path, count: int, port: int | None) -> None:
    members = {f"n{n}": Place(f"127.0.0.{11 + n}:11001", "127.0.0.11:1") for n in range(count)}
    made = NewNode("n0", Shared(members), tmp_path).sections()
    assert made["broker"].get("relay_port") == port
    given = Shared(members).with_settings({"broker.relay_port": 7})
    assert NewNode("n0", given, tmp_path).sections()["broker"]["relay_port"] == 7


@pytest.mark.parametrize(
    ("first", "second"),
    [("h:5000", "h:5004"), ("h:65533", "h:1"), ("h:7000", "h:7001")],
    ids=["its peers'", "above all ports", "its admin's"],
)
def test_a_port_that_something_else_has_is_no_relay_port(
    tmp_path: Path, first: str, second: str
) -> None:
    members = {"n0": Place(first, second)} | {
        f"n{n}": Place(f"g{n}:10911", f"g{n}:20911") for n in (1, 2)
    }
    made = NewNode("n0", Shared(members), tmp_path, admin="127.0.0.1:7004").sections()
    assert "relay_port" not in made["broker"]
