"""Another release is one whose code is another."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from chaos.drivers import versions


def test_a_copy_of_this_release_is_no_other_and_one_line_makes_it_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = shutil.ignore_patterns("__pycache__")
    for package in (*versions.PACKAGES, "chaos"):
        shutil.copytree(versions.OURS / package, tmp_path / package, ignore=compiled)
    monkeypatch.setenv(versions.VARIABLE, str(tmp_path))
    assert versions.why_not().endswith("is this one's")
    with (tmp_path / "dledger" / "core" / "node.py").open("a") as file:
        file.write("# older\n")
    assert versions.why_not() == ""


def test_nothing_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(versions.VARIABLE, raising=False)
    assert versions.why_not().startswith("needs another release")
