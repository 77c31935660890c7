"""`scripts/_env` takes the quickest build of its Python version that the machine has."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scripts import quickest_python
from scripts.quickest_python import candidates, measured, quickest

NAME = f"python{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.mark.parametrize(
    ("seconds", "taken"),
    [
        ({"first": [1.0, 1.0], "other": [0.8, 0.9]}, "/real/other"),
        ({"first": [1.0, 1.0], "other": [0.96, 0.97]}, "first"),  # noise
        ({"first": [9.0, 1.0], "other": [1.5, 1.5]}, "first"),  # the first was held up once
        ({"first": [1.0, 1.0], "other": [0.9, 0.9], "third": [0.5, 2.0]}, "/real/third"),
        ({"first": [1.0, 1.0], "other": [None, None]}, "first"),  # cannot make environments
        ({"first": [None, None], "other": [5.0, 5.0]}, "/real/other"),
        ({"first": [None, None], "other": [None, None]}, "first"),
    ],
)
def test_another_is_taken_when_it_is_quicker_by_more_than_noise(
    seconds: dict[str, list[float | None]], taken: str
) -> None:
    left = {path: list(found) for path, found in seconds.items()}

    def ask(path: str) -> quickest_python.Found | None:
        found = left[path].pop(0)
        return None if found is None else (found, f"/real/{path}")

    assert quickest(list(seconds), ask) == taken
    assert not any(left.values()), "by turns, each as often as the others"


def test_one_alone_is_taken_without_a_measurement() -> None:
    asked: list[str] = []
    assert quickest(["only"], lambda path: asked.append(path)) == "only"
    assert asked == []


def test_candidates_are_files_of_this_version_each_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, linked = (tmp_path / folder for folder in ("one", "two", "linked"))
    monkeypatch.setattr(quickest_python, "FOLDERS", (str(two),))
    for folder in (one, two, linked):
        folder.mkdir()
    for folder in (one, two):
        (folder / NAME).write_text("#!/bin/sh\n")
        (folder / NAME).chmod(0o755)
    (one / "python3.1").write_text("not asked")
    (linked / NAME).symlink_to(one / NAME)
    path = {"PATH": f"{one}:{linked}:{tmp_path / 'missing'}"}
    assert list(candidates(path)) == [sys.executable, str(one / NAME), str(two / NAME)]


def test_an_interpreter_is_measured_and_says_where_it_is(tmp_path: Path) -> None:
    found = measured(sys.executable)
    assert found is not None
    assert 0.0 < found[0] < 60.0
    assert Path(found[1]).samefile(sys.executable)
    other = tmp_path / NAME  # of another version, as far as it says
    other.write_text("#!/bin/sh\necho 0.001 False /usr/bin/other\n")
    other.chmod(0o755)
    assert measured(str(other)) is None
    other.write_text("#!/bin/sh\necho No module named ensurepip >&2; exit 1\n")
    assert measured(str(other)) is None
    assert measured(str(tmp_path / "missing")) is None
