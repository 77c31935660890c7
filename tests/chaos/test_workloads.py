"""Wishes are repeatable, values unique and readable from a body."""

from __future__ import annotations

from itertools import islice

import pytest

from chaos.workloads import (
    BODY_BYTES_MAX,
    LEVEL_SECONDS,
    Ending,
    Want,
    Way,
    Workload,
    processes,
    value_of,
    wishes,
)


def take(process: str, want: Want, seed: int = 1, count: int = 200) -> list[object]:
    return list(islice(wishes(Workload(), process, want, seed), count))


def test_the_same_seed_wants_the_same() -> None:
    assert take("p0", Want.SEND) == take("p0", Want.SEND)
    assert take("p0", Want.SEND) != take("p0", Want.SEND, seed=2)


def test_every_process_has_its_place() -> None:
    counts = {"producers": 2, "keyed": 1, "in_memory": 1, "readers": 1, "registers": 1, "groups": 1}
    found = processes(Workload(**counts, delayed=1, transactional=1, sessions=1))
    assert found == {
        "p0": Want.SEND,
        "p1": Want.SEND,
        "k0": Want.SEND_KEYED,
        "m0": Want.SEND_IN_MEMORY,
        "r0": Want.POLL,
        "t0": Want.READ,
        "s0": Want.SEND_AND_READ,
        "g0": Want.COMMIT,
        "d0": Want.SEND_DELAYED,
        "x0": Want.SEND_HALF,
    }


def test_a_value_is_unique_and_stands_in_its_body() -> None:
    workload = Workload(body_bytes_max=100)
    sends = [
        wish
        for name, want in processes(workload).items()
        if want in (Want.SEND, Want.SEND_KEYED)
        for wish in islice(wishes(workload, name, want, 3), 100)
    ]
    assert len({wish.value for wish in sends}) == len(sends)
    assert all(value_of(wish.body) == wish.value for wish in sends)
    assert all(wish.key == wish.value.partition("-")[0] for wish in sends if wish.key)


def test_groups_commit_and_ask() -> None:
    wants = {wish.want for wish in islice(wishes(Workload(), "g0", Want.COMMIT, 1), 20)}
    assert wants == {Want.COMMIT, Want.FETCH}


def test_a_session_reads_the_queue_that_it_sent_to() -> None:
    found = list(islice(wishes(Workload(), "s0", Want.SEND_AND_READ, 1), 200))
    assert [wish.want for wish in found] == [Want.SEND, Want.READ] * 100
    assert [wish.queue for wish in found[::2]] == [wish.queue for wish in found[1::2]]
    sends = found[::2]
    assert len({wish.queue for wish in sends}) > 1
    assert len({wish.value for wish in sends}) == 100
    assert all(value_of(wish.body) == wish.value for wish in sends)


def test_what_waits_does_so_in_every_way() -> None:
    delayed = list(islice(wishes(Workload(), "d0", Want.SEND_DELAYED, 1), 200))
    halves = list(islice(wishes(Workload(), "x0", Want.SEND_HALF, 1), 200))
    delays = [wish.delay for wish in delayed if wish.delay is not None]
    assert {delay.way for delay in delays} == set(Way)
    levels = [delay for delay in delays if delay.way is Way.LEVEL]
    assert {(delay.level, delay.seconds) for delay in levels} == {*enumerate(LEVEL_SECONDS, 1)}
    assert {wish.ending for wish in halves} == set(Ending)
    for found in (delayed, halves):
        assert len({wish.value for wish in found}) == len(found)
        assert all(value_of(wish.body) == wish.value for wish in found)


@pytest.mark.parametrize(
    "wrong",
    [
        {"queues": 0},
        {"producers": 0, "keyed": 0},
        {"body_bytes_max": BODY_BYTES_MAX + 1},
        {"rate": 0},
        {"asks": -1},
    ],
)
def test_an_impossible_workload_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"must be|needs"):
        Workload(**wrong)  # type: ignore[arg-type]
