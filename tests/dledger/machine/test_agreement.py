"""Published results: the minority stops at the index that differs, the majority goes on."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from dledger.errors import StateMachineDiverged
from dledger.machine.agreement import KEPT_MAX, Agreement

VOTERS = ("n0", "n1", "n2")


class Trial:
    """Nodes that see one log; `results` by node and index, where they differ from the others'."""

    def __init__(self, wrong: Mapping[str, Mapping[int, bytes]], leader: str = "n0") -> None:
        self.wrong, self.leader = wrong, leader
        self.log: list[bytes] = []
        self.nodes = {name: Agreement(name, 10, self.log.append) for name in VOTERS}
        self.ended: dict[str, int] = {}

    def run(self, first: int, last: int, *names: str) -> None:
        for index in range(first, last + 1):
            for name in names or VOTERS:
                if name not in self.ended:
                    result = self.wrong.get(name, {}).get(index, b"right")
                    self.nodes[name].note([index], [result], leads=name == self.leader)
        self.publish()

    def publish(self) -> None:
        while self.log:
            data = self.log.pop(0)
            for name in VOTERS:
                if name in self.ended:
                    continue
                try:
                    self.nodes[name].published(data, VOTERS)
                except StateMachineDiverged as diverged:
                    self.ended[name] = diverged.index


def test_equal_results_are_published_once_a_window() -> None:
    trial = Trial({})
    trial.run(0, 9)
    assert not trial.log
    trial.nodes["n0"].note([10], [b"right"], leads=True)
    assert len(trial.log) == 1


@pytest.mark.parametrize("wrong", VOTERS)
def test_one_that_differs_stops_where_it_differs_first(wrong: str) -> None:
    trial = Trial({wrong: {17: b"else", 18: b"else"}})
    trial.run(0, 15)
    assert trial.ended == {}
    trial.run(16, 20)
    assert trial.ended == {wrong: 17}
    trial.run(21, 60)
    assert trial.ended == {wrong: 17}


def test_without_a_majority_all_stop() -> None:
    trial = Trial({"n0": {4: b"zero"}, "n1": {5: b"one"}})
    trial.run(0, 10)
    assert set(trial.ended) == set(VOTERS)


def test_a_result_that_is_missing_differs() -> None:
    trial = Trial({})
    trial.run(0, 3)
    trial.nodes["n2"].note([4], [b"right"], leads=False)
    trial.run(5, 10)
    assert trial.ended == {"n2": 4}


def test_one_that_took_a_state_says_nothing_of_that_window() -> None:
    trial = Trial({"n1": {11: b"else"}})
    trial.run(0, 12, "n0", "n2")
    trial.nodes["n1"].began_at(12)
    trial.run(13, 25)
    assert trial.ended == {}
    trial.wrong = {"n1": {28: b"else"}}
    trial.run(26, 30)
    assert trial.ended == {"n1": 28}


def states(trial: Trial, index: int, wrong: Mapping[str, int], *names: str) -> None:
    """The nodes note their states before this index, that begins a window; all that is said."""
    for name in names or VOTERS:
        if name not in trial.ended:
            trial.nodes[name].state_is(index, wrong.get(name, 7), leads=name == trial.leader)
    trial.publish()


@pytest.mark.parametrize("wrong", VOTERS)
def test_a_state_that_differs_stops_its_node_although_results_agree(wrong: str) -> None:
    trial = Trial({})
    trial.run(0, 9)
    states(trial, 10, {})
    trial.run(10, 19)
    assert trial.ended == {}
    states(trial, 20, {wrong: 8})
    assert trial.ended == {wrong: 19}
    trial.run(20, 60)
    assert trial.ended == {wrong: 19}


def test_a_node_of_the_former_release_passes_states_over_and_has_no_vote_in_them() -> None:
    """It remembers no window of a state; two that differ are no majority of three then."""
    trial = Trial({}, leader="n1")
    trial.run(0, 15)
    states(trial, 10, {"n2": 8}, "n1", "n2")
    assert trial.ended == {}
    trial.run(16, 30)
    assert trial.ended == {}


def test_the_state_of_a_window_whose_results_were_not_all_seen_is_compared() -> None:
    trial = Trial({})
    trial.run(0, 12, "n0", "n2")
    trial.nodes["n1"].began_at(12)
    trial.run(13, 19)
    states(trial, 20, {"n1": 8})
    assert trial.ended == {"n1": 19}


def test_results_and_states_are_remembered_alike() -> None:
    trial = Trial({})
    for index in range(0, 1000, 10):
        trial.run(index, index + 9)
        states(trial, index + 10, {})
    windows = trial.nodes["n0"]._windows
    assert (len(windows), len(trial.nodes["n0"]._said)) == (2 * KEPT_MAX, 2 * KEPT_MAX - 1)
    assert {window for window in windows if window < 0} == {~window for window in range(92, 100)}
