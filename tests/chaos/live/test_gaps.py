from __future__ import annotations

import pytest

from chaos.live.gaps import gap_after

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
