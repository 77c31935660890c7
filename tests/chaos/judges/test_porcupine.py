"""porcupine says of every history what our own judges say; skipped where it cannot be built.

.tools/interop/porcupine/    built when CI=true or DLEDGER_INTEROP_INSTALL is set, as the
                             programs of the foreign clients are (tests/interop/README.md)
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from random import Random

import pytest

from chaos.checkers.queues import judge_queues
from chaos.checkers.search import is_linearizable
from chaos.checkers.verdict import Word, judge
from chaos.history import INFINITY, Kind, Operation, Outcome
from chaos.judges.porcupine.judge import PorcupineError, Question, ask
from tests.chaos.checkers.generated import broken, legal
from tests.chaos.checkers.golden_cases import cases
from tests.interop.harness import toolchains

HISTORIES = int(os.environ.get("DLEDGER_HISTORIES", "2000"))

# Promises that are stronger than one order: a producer's sends overlap and keep their order.
SESSIONS = {"nonmonotonic-send", "nonmonotonic-read"}


@pytest.fixture(scope="module")
def program() -> Path:
    try:
        return toolchains.porcupine()
    except toolchains.Missing as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(missing))


def test_it_agrees_with_both_judges_on_generated_histories(program: Path) -> None:
    random = Random("porcupine")
    made = [legal(random) if n % 2 else broken(random) for n in range(HISTORIES)]
    questions = [
        Question(str(n), history, {"n": {"": log}}) for n, (history, log) in enumerate(made)
    ]
    answers = ask(program, questions)
    assert len(answers) == len(made)
    for answer, (history, log) in zip(answers, made, strict=True):
        swept = judge(history, {"n": log}, acked_min=0).word
        searched = Word.VALID if is_linearizable(history, log) else Word.INVALID
        story = "\n".join(op.to_json() for op in history)
        assert (answer.word, answer.word) == (swept, searched), f"{answer}\n{story}\nlog {log}"
    invalid = sum(answer.word is Word.INVALID for answer in answers)
    assert 0.1 < invalid / len(answers) < 0.6, "both kinds come"


def test_it_agrees_on_the_golden_anomalies(program: Path) -> None:
    kinds = {Kind.APPEND, Kind.READ}
    golden = [
        case
        for case in cases()
        if case.replicas and {op.kind for op in case.history} <= kinds
        if not case.is_of_live_runs
        if not case.expected or case.expected - SESSIONS
    ]
    answers = ask(program, [Question(c.name, c.history, c.replicas) for c in golden])
    own = {c.name: judge_queues(c.history, c.replicas, acked_min=0).word for c in golden}
    assert {answer.name: answer.word for answer in answers} == own
    assert sum(word is Word.INVALID for word in own.values()) >= 20


def _small_register(random: Random) -> list[Operation]:
    """Up to six writes and reads of one register, each answered by chance."""
    history = []
    for n in range(random.randrange(1, 7)):
        begin = random.uniform(0, 4)
        end = begin + random.expovariate(1)
        if random.random() < 0.5:
            info = random.random() < 0.3
            one = Operation(f"p{n}", Kind.APPEND, f"v{n}", begin, end, Outcome.OK, n)
            if info:
                one = replace(one, completed=INFINITY, outcome=Outcome.INFO, offset=-1)
        else:
            seen = f"v{random.randrange(n)}" if n and random.random() < 0.8 else ""
            one = Operation(f"p{n}", Kind.READ, seen, begin, end, Outcome.OK, n)
        history.append(one)
    return history


def _explained(history: Sequence[Operation]) -> bool:
    """Try every order of every choice of writes of unknown outcome: slow, and plainly right."""
    known = [op for op in history if op.outcome is Outcome.OK]
    unknown = [op for op in history if op.outcome is Outcome.INFO]
    for chosen in range(1 << len(unknown)):
        taken = known + [op for n, op in enumerate(unknown) if chosen >> n & 1]
        if any(_fits(order) for order in permutations(taken)):
            return True
    return False


def _fits(order: Sequence[Operation]) -> bool:
    last, latest_begin = "", -INFINITY
    for op in order:
        if op.completed < latest_begin:
            return False
        latest_begin = max(latest_begin, op.invoked)
        if op.kind is Kind.APPEND:
            last = op.value
        elif op.value != last:
            return False
    return True


def test_register_histories_are_judged_as_by_trying_every_order(program: Path) -> None:
    random = Random("registers")
    made = [_small_register(random) for _ in range(400)]
    answers = ask(
        program, [Question(str(n), one, {}) for n, one in enumerate(made)], model="register"
    )
    expected = [Word.VALID if _explained(one) else Word.INVALID for one in made]
    assert [answer.word for answer in answers] == expected
    assert 50 < expected.count(Word.VALID) < 350


def test_without_a_final_log_the_queue_model_says_that_it_does_not_know(program: Path) -> None:
    (answer,) = ask(program, [Question("bare", [], {})])
    assert answer.word is Word.UNKNOWN
    assert "final log" in answer.because


def test_input_that_is_no_history_is_refused_with_a_sentence(program: Path) -> None:
    class Nonsense(Question):
        def to_json(self) -> str:
            return '{"name": "x", "replicas": {"n": {"": [[1]]}}}'

    with pytest.raises(PorcupineError, match="an entry is"):
        ask(program, [Nonsense("x", [], {})])


def test_a_queue_that_is_too_long_to_search_is_unknown_and_not_valid(program: Path) -> None:
    count = 20_001
    history = [
        Operation("p", Kind.APPEND, f"v{n}", n, n + 0.5, Outcome.OK, n) for n in range(count)
    ]
    log = [(n, f"v{n}") for n in range(count)]
    (answer,) = ask(program, [Question("long", history, {"n": {"": log}})])
    assert answer.word is Word.UNKNOWN
    assert "at most" in answer.because


def test_several_thousand_operations_with_some_unknown_are_judged(program: Path) -> None:
    history, log = [], []
    for n in range(3000):
        unknown = n % 10 == 0
        log.append((n, f"v{n}"))
        history.append(
            Operation(f"p{n % 7}", Kind.APPEND, f"v{n}", n, n + 3.5, Outcome.OK, n)
            if not unknown
            else Operation(f"u{n}", Kind.APPEND, f"v{n}", n, INFINITY, Outcome.INFO)
        )
    good, lost = (
        Question("good", history, {"n": {"": log}}),
        Question("lost", history, {"n": {"": log[:1501] + log[1502:]}}),
    )
    words = [answer.word for answer in ask(program, [good, lost])]
    assert words == [Word.VALID, Word.INVALID]
