"""Every story in the folders beside this file, step by step; README.md has the words.

`DLEDGER_UPDATE_SCENARIOS=1` writes what was shown into the stories instead of comparing; read the
difference before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.dledger.core.net import Net

from .language import question, step

HERE = Path(__file__).parent
STORIES = sorted(HERE.glob("*/*.txt"))


def play(text: str) -> str:
    """The story as it is, with what is shown now in place of what it says."""
    net = Net(0)
    said = []
    for line in text.splitlines():
        if line.startswith("    "):
            continue
        said.append(line)
        verb, *words = line.partition("#")[0].split() or [""]
        if verb == "group":
            net = Net(int(words[0]))
        elif verb:
            shown = question(net, verb, words)
            if shown is None:
                step(net, verb, words)
            else:
                said.append(f"    {shown}")
    net.check_logs()
    return "\n".join(said) + "\n"


def test_there_are_stories() -> None:
    assert len(STORIES) >= 16


@pytest.mark.parametrize("story", STORIES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_story_ends_as_it_is_told(story: Path) -> None:
    told = story.read_text(encoding="utf-8")
    if os.environ.get("DLEDGER_UPDATE_SCENARIOS"):
        story.write_text(play(told), encoding="utf-8")
        return
    assert "    " in told, "a story shows something"
    assert play(told) == told


def test_a_word_that_is_not_known_is_an_error() -> None:
    with pytest.raises(AssertionError, match="no step is called"):
        play("group 3\nelects n0\n")


def test_a_story_that_is_told_wrong_fails() -> None:
    assert play("group 3\nterms n0\n    1 2 3\n") == "group 3\nterms n0\n    empty\n"
