"""What a node is asked, and what it answers, also when it cannot open a file for a while."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos.live import node_hooks
from chaos.live.node_hooks import Wishes


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """As the kind `squeeze` leaves a node."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_each_question_is_met_once(tmp_path: Path) -> None:
    wishes = Wishes(tmp_path)
    assert wishes.look() is None
    number = node_hooks.ask(tmp_path, transfer="n1")
    assert wishes.look() == {"number": number, "transfer": "n1"}
    assert wishes.look() is None
    wishes.tell(number, "handed over")
    assert node_hooks.answered(tmp_path, number) == "handed over"
    node_hooks.forget(tmp_path)
    assert wishes.look() is None


def test_a_question_waits_for_a_descriptor(tmp_path: Path) -> None:
    wishes = Wishes(tmp_path)
    number = node_hooks.ask(tmp_path, sweep=True)
    with no_descriptor_left():
        assert wishes.look() is None
    assert wishes.look() == {"number": number, "sweep": True}


def test_so_does_an_answer(tmp_path: Path) -> None:
    wishes = Wishes(tmp_path)
    number = node_hooks.ask(tmp_path, sweep=True)
    assert wishes.look() is not None
    with no_descriptor_left():
        wishes.tell(number, "swept")
        assert wishes.look() is None
    assert node_hooks.answered(tmp_path, number) is None
    assert wishes.look() is None
    assert node_hooks.answered(tmp_path, number) == "swept"
