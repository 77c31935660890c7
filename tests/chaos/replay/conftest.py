"""Folders of runs that nothing is wrong with, for tests that spoil them."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.replay import folder
from chaos.sim.profile import Profile
from chaos.sim.runner import Plan
from tests.chaos.report.folders import all_seen, listed, write_folder


@pytest.fixture
def live(tmp_path: Path) -> Path:
    """A valid live run."""
    return listed(all_seen(write_folder(tmp_path / "live")))


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A valid simulated one; whoever spoils it copies it first."""
    root = tmp_path_factory.mktemp("simulated")
    folder.record(root, Plan(6, 7, 3, 4.0, Profile()), "")
    return root
