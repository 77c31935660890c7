"""Another release is one whose code is another."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from chaos.drivers import versions


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for package in (*versions.PACKAGES, "chaos"):
        shutil.copytree(versions.OURS / package, tmp_path / package)
    monkeypatch.setenv(versions.VARIABLE, str(tmp_path))
    return tmp_path


def test_a_copy_of_this_release_is_no_other(copy: Path) -> None:
    assert versions.why_not().endswith("is this one's")


def test_one_line_makes_it_another(copy: Path) -> None:
    with (copy / "dledger" / "core" / "node.py").open("a") as file:
        file.write("# older\n")
    assert versions.why_not() == ""


def test_nothing_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(versions.VARIABLE, raising=False)
    assert versions.why_not().startswith("needs another release")
