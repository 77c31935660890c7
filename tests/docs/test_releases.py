"""docs/releases.toml: each release is a commit of this history, with its version and section."""

from __future__ import annotations

import re
import subprocess

import pytest

from cluster.core.feature_level import LEVEL as LEVEL_HERE
from tests.integration.former import BELOW, LEVEL, VERSION, releases, version_here

from .pages import ROOT

RELEASES = releases()


def git(*arguments: str) -> str | None:
    """What git says; None when it fails."""
    command = ["git", "-C", str(ROOT), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def test_versions_rise_and_this_one_is_newer() -> None:
    """A release that is recorded raises it, so that tests take that release as the former one."""
    numbers = [_numbers(row.version) for row in RELEASES]
    assert numbers == sorted(numbers)
    assert len(set(map(tuple, numbers))) == len(numbers)
    assert numbers[-1] < _numbers(version_here()), "recorded: raise the version (CONTRIBUTING.md)"


def test_each_has_its_section_of_the_changelog() -> None:
    page = (ROOT / "CHANGELOG.md").read_text("utf-8")
    dated = re.findall(r"^## (\S+) \(\d{4}-\d\d-\d\d\)$", page, re.MULTILINE)
    recorded = [row.version for row in reversed(RELEASES)]
    assert dated in (recorded, [version_here(), *recorded]), "what follows is in changelog.d"


@pytest.mark.parametrize("row", RELEASES, ids=lambda row: row.version)
def test_its_commit_has_that_version_and_level(row: tuple[str, str, int]) -> None:
    version, commit, level = row
    if git("cat-file", "-e", f"{commit}^{{commit}}") is None:
        pytest.skip(f"needs the history: {commit[:8]} (git fetch --unshallow)")
    assert f'version = "{version}"' in (git("show", f"{commit}:pyproject.toml") or "")
    source = git("show", f"{commit}:cluster/core/feature_level.py") or ""
    assert re.search(rf"^LEVEL\b.* = {level}$", source, re.MULTILINE), source[:400]
    tagged = git("rev-parse", "-q", "--verify", f"refs/tags/v{version}^{{commit}}")
    assert tagged in (None, commit), "a clone that has the tag has it there"


def test_the_upgrade_tests_take_the_newest_and_the_newest_of_a_lower_level() -> None:
    assert (RELEASES[-1].version, RELEASES[-1].level) == (VERSION, LEVEL)
    assert BELOW in RELEASES
    assert all(row.level >= LEVEL_HERE for row in RELEASES[RELEASES.index(BELOW) + 1 :])
    assert BELOW.level < LEVEL_HERE
