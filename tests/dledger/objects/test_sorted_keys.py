"""SortedKeys against a sorted list, and the bounds of its rows: no change moves all keys."""

from __future__ import annotations

from bisect import bisect_left
from random import Random
from typing import Any

import pytest

from dledger.objects import sorted_keys
from dledger.objects.sorted_keys import SortedKeys


@pytest.fixture(params=[4, 16, 4096])
def row_max(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sorted_keys, "ROW_MAX", request.param)
    return int(request.param)


def check(keys: SortedKeys[Any], plain: list[Any], row_max: int) -> None:
    assert len(keys) == len(plain)
    assert keys[:] == plain
    rows = keys._rows
    assert keys._lasts == [row[-1] for row in rows if row]
    assert max(map(len, rows)) <= row_max
    if len(rows) > 1:
        assert min(map(len, rows)) >= row_max // 4, "short rows would be many"


@pytest.mark.parametrize("seed", range(6))
def test_it_is_a_sorted_list(seed: int, row_max: int) -> None:
    random, keys, plain = Random(seed), SortedKeys[str](), list[str]()
    check(keys, plain, row_max)
    for grows in (True, False, True, False):
        for _ in range(150):
            key = f"k{random.randrange(200)}"
            if key in plain and random.random() < (0.2 if grows else 0.9):
                keys.remove(key)
                plain.remove(key)
            elif key not in plain and (grows or random.random() < 0.1):
                keys.add(key)
                plain.insert(bisect_left(plain, key), key)
            check(keys, plain, row_max)
        begin, end, limit = random.randrange(200), random.randrange(200), random.randrange(9)
        assert keys[begin:end] == plain[begin:end]
        first, behind = f"k{random.randrange(200)}", random.choice([None, f"k{end}"])
        found = [key for key in plain if key >= first and (behind is None or key < behind)]
        assert keys.between(first, behind) == found
        assert keys.between(first, behind, limit) == (found[:limit] if limit else found)
        check(SortedKeys(reversed(plain)), plain, row_max)
    for key in plain.copy():
        keys.remove(key)
        plain.remove(key)
        check(keys, plain, row_max)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 8, 9, 17, 64, 65])
def test_one_that_is_made_of_many_has_the_same_bounds(count: int, row_max: int) -> None:
    plain = list(range(count))
    check(SortedKeys(plain), plain, row_max)
    keys = SortedKeys[int]()
    for key in plain:  # in rising order, as numbers of leases come
        keys.add(key)
        check(keys, plain[: key + 1], row_max)
