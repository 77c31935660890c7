"""Delta debugging alone: the answer still fails, nothing can be left out of it, few tries."""

from __future__ import annotations

from random import Random

import pytest

from chaos.replay.minimize import Numbers, minimize


@pytest.mark.parametrize("needed", [(), (4,), (3, 11), (0, 1, 2), (0, 7, 13, 19), tuple(range(20))])
def test_what_is_needed_is_left_and_nothing_else(needed: Numbers) -> None:
    assert minimize(range(20), lambda kept: set(needed) <= set(kept)) == needed


def test_two_reasons_leave_one() -> None:
    def fails(kept: Numbers) -> bool:
        return {2, 5} <= set(kept) or {14} <= set(kept)

    assert minimize(range(20), fails) in ((2, 5), (14,))


def test_nothing_can_be_left_out_of_the_answer_whatever_fails() -> None:
    random = Random(1)
    for _ in range(200):
        chance = random.getrandbits(32)

        def fails(kept: Numbers, chance: int = chance) -> bool:
            return len(kept) == 12 or Random(f"{chance} {kept}").random() < 0.2

        kept = minimize(range(12), fails)
        assert fails(kept)
        assert not any(fails(tuple(number for number in kept if number != out)) for out in kept), (
            "one more could be spared"
        )


def test_one_reason_among_very_many_is_found_in_few_tries() -> None:
    tries = 0

    def fails(kept: Numbers) -> bool:
        nonlocal tries
        tries += 1
        return 700 in kept

    assert minimize(range(1000), fails) == (700,)
    assert tries <= 25
