from __future__ import annotations

import pytest

from chaos.live.gaps import Waiting, gap_after

ACKS = [1.0, 1.1, 1.2, 3.0, 3.1, 3.2]


@pytest.mark.parametrize(
    ("moment", "until", "gap"),
    [
        (1.15, 3.2, 1.8),  # the gap that the fault made
        (1.25, 3.2, 1.8),  # it began before the moment: the last answer was on its way
        (3.05, 3.2, 0.1),
        (3.2, 5.0, 1.8),  # still going on
        (0.5, 1.1, 0.5),  # nothing came before
        (9.0, 9.5, 6.3),
    ],
)
def test_longest_silence_around_a_moment(moment: float, until: float, gap: float) -> None:
    assert gap_after(ACKS, moment, until) == pytest.approx(gap)


def test_silence_without_any_answer() -> None:
    assert gap_after([], 1.0, 4.0) == 3.0


def test_the_pause_between_two_sends_is_no_outage() -> None:
    waiting = Waiting()
    for second in range(5):
        waiting.sent(second)
        waiting.acknowledged(second + 0.01)
    assert waiting.longest(0.5, 4.5) == pytest.approx(0.01)
    assert waiting.longest(4.5, 9.0) is None
    assert waiting.nobody


def test_silence_lasts_while_anybody_waits() -> None:
    waiting = Waiting()
    waiting.sent(1.0)
    waiting.sent(1.2)
    waiting.acknowledged(1.5)
    assert waiting.longest(1.6, 2.0) == pytest.approx(0.5)  # still going on, since 1.5
    waiting.failed()  # given up, and the next one is sent
    assert not waiting.nobody
    waiting.sent(4.0)
    waiting.acknowledged(4.1)
    assert waiting.longest(2.0, 5.0) == pytest.approx(2.6)
    assert waiting.longest(0.0, 1.4) == pytest.approx(0.5)  # a span counts whole
    assert waiting.nobody
