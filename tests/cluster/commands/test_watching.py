"""Looking again and again: what ends it, and what does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from cluster.commands.errors import NOT_THERE, RETRY, CommandError
from cluster.commands.watching import looks
from cluster.errors import ClusterError, NotConnected, TopicNotFound


def of(*outcomes: int | Exception) -> Callable[[], int]:
    """A look for each of them."""
    left: Iterator[int | Exception] = iter(outcomes)

    def look() -> int:
        found = next(left)
        if isinstance(found, Exception):
            raise found
        return found

    return look


def test_without_watching_there_is_one_look() -> None:
    assert list(looks(of(1), watch=False)) == [1]


@pytest.mark.parametrize(
    "error",
    [CommandError("nobody answers; try again", RETRY), NotConnected("no node answers; try again")],
)
def test_a_later_look_that_fails_is_told_and_followed_by_the_next(
    error: ClusterError | CommandError, capsys: pytest.CaptureFixture[str]
) -> None:
    found = looks(of(1, error, error, 2), watch=True, seconds=0)
    assert [next(found), next(found)] == [1, 2]
    assert capsys.readouterr().err.count("try again") == 2


@pytest.mark.parametrize(
    "error", [CommandError("there is none; look", NOT_THERE), TopicNotFound("no such topic")]
)
def test_what_asking_again_cannot_cure_ends_it(error: ClusterError | CommandError) -> None:
    found = looks(of(1, error), watch=True, seconds=0)
    assert next(found) == 1
    with pytest.raises(type(error)):
        next(found)


def test_the_first_look_that_fails_ends_it() -> None:
    with pytest.raises(NotConnected):
        next(looks(of(NotConnected("no node answers; try again")), watch=True, seconds=0))
