"""Which settings a node has in common with the others of its group."""

from __future__ import annotations

from dataclasses import fields

import pytest

from cluster.local.new_node import OWN_SETTINGS
from cluster.settings.node import SECTIONS


@pytest.mark.parametrize("section", SECTIONS)
def test_every_section_says_what_is_a_nodes_own(section: str) -> None:
    """All else of it is taken from another node's file."""
    assert OWN_SETTINGS[section] <= {field.name for field in fields(SECTIONS[section])}
