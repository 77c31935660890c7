"""Two judges that share no code, the sweep and the search, say the same of every history."""

from __future__ import annotations

from random import Random

import pytest

from chaos.checkers.search import OPERATIONS_MAX, is_linearizable
from chaos.checkers.verdict import Word, judge
from chaos.history import Kind, Operation, Outcome
from tests.chaos.checkers.generated import Generated, broken, legal

BLOCK = 1000
# 100,000 histories in all, half of them with one edit: the bar of docs/spec/chaos.md 6. Two blocks
# of each kind in the short suite.
BLOCKS = [*range(2), *(pytest.param(block, marks=pytest.mark.long) for block in range(2, 50))]


def _swept(history: list[Operation], log: list[tuple[int, str]]) -> bool:
    return judge(history, {"n": log}, acked_min=0).word is Word.VALID


def _check(made: Generated) -> bool:
    """The common verdict; says the history when there is none."""
    swept, searched = _swept(*made), is_linearizable(*made)
    story = "\n".join(op.to_json() for op in made[0])
    assert swept == searched, f"sweep {swept}, search {searched}:\n{story}\nlog {made[1]}"
    return swept


@pytest.mark.parametrize("block", BLOCKS)
def test_legal_histories_are_valid_for_both(block: int) -> None:
    random = Random(f"legal {block}")
    for _ in range(BLOCK):
        assert _check(legal(random))


@pytest.mark.parametrize("block", BLOCKS)
def test_broken_histories_get_one_verdict(block: int) -> None:
    random = Random(f"broken {block}")
    verdicts = [_check(broken(random)) for _ in range(BLOCK)]
    assert 0.2 < sum(verdicts) / BLOCK < 0.8, "both kinds come"


def test_long_histories_are_refused_by_the_search() -> None:
    history = [
        Operation("p", Kind.APPEND, f"v{n}", n, n + 0.5, Outcome.OK, n)
        for n in range(OPERATIONS_MAX + 1)
    ]
    with pytest.raises(ValueError, match="too many to search"):
        is_linearizable(history, [(op.offset, op.value) for op in history])
