"""The virtual network: order and holes of streams, freezing, breaking, datagrams."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from chaos.sim.network import CALM, Network, NetworkOptions, Pipe
from chaos.sim.scheduler import Scheduler

ROUGH = replace(CALM, latency=0.001, jitter=0.05, tail=0.1, tail_max=1.0)
DATAGRAM = replace(ROUGH, datagram=True, loss=0.2, double=0.2)


class Ends:
    """Collects what arrives and who is told of broken connections."""

    def __init__(self, options: NetworkOptions, seed: int = 1) -> None:
        self.scheduler = Scheduler()
        self.frames: list[bytes] = []
        self.told: list[tuple[int, int]] = []
        self.network = Network(
            self.scheduler, Random(seed), options, 3, self.receive, self.disconnected
        )
        self.pipe = self.network.pipes[0, 1, 0]

    def receive(self, pipe: Pipe, frame: bytes) -> None:
        self.frames.append(frame)

    def disconnected(self, node: int, peer: int) -> None:
        self.told.append((node, peer))

    def send(self, count: int, first: int = 0) -> None:
        for number in range(first, first + count):
            self.network.send(0, 1, 0, number.to_bytes(4, "big"))

    def numbers(self) -> list[int]:
        return [int.from_bytes(frame, "big") for frame in self.frames]


def test_a_stream_is_in_order_and_without_holes() -> None:
    ends = Ends(ROUGH)
    ends.send(200)
    ends.scheduler.run_until(10)
    assert ends.numbers() == list(range(200))


def test_datagrams_are_lost_doubled_and_overtaken() -> None:
    ends = Ends(DATAGRAM)
    ends.send(500)
    ends.scheduler.run_until(10)
    numbers = ends.numbers()
    assert numbers != sorted(numbers)
    assert len(set(numbers)) < 500
    assert len(numbers) > len(set(numbers))


def test_a_frozen_pipe_delivers_in_order_when_it_thaws() -> None:
    ends = Ends(ROUGH)
    ends.network.freeze(ends.pipe)
    ends.send(50)
    ends.scheduler.run_until(5)
    assert not ends.frames
    ends.network.open(ends.pipe)
    ends.send(10, first=50)
    ends.scheduler.run_until(10)
    assert ends.numbers() == list(range(60))
    assert not ends.told


def test_a_blocked_stream_loses_what_is_under_way_and_tells_both_ends() -> None:
    ends = Ends(ROUGH)
    ends.send(50)
    ends.network.block(ends.pipe)
    ends.send(10, first=50)
    ends.scheduler.run_until(5)
    assert not ends.frames
    assert sorted(ends.told) == [(0, 1), (1, 0)]
    ends.network.open(ends.pipe)
    ends.send(10, first=60)
    ends.scheduler.run_until(10)
    assert ends.numbers() == list(range(60, 70))


def test_one_way_and_one_lane_are_cut_alone() -> None:
    ends = Ends(CALM)
    ends.network.block(ends.pipe)
    ends.network.send(0, 1, 1, b"bulk")
    ends.network.send(1, 0, 0, b"back")
    ends.scheduler.run_until(1)
    # a stream's connection has two directions, so the way back breaks once, and works after that
    assert b"bulk" in ends.frames
    ends.network.send(1, 0, 0, b"again")
    ends.scheduler.run_until(2)
    assert b"again" in ends.frames


def test_a_dead_node_receives_nothing_that_was_sent_to_its_earlier_life() -> None:
    ends = Ends(ROUGH)
    ends.send(20)
    ends.network.node_died(1, 3)
    ends.scheduler.run_until(5)
    assert not ends.frames
    assert {(0, 1), (2, 1)} <= set(ends.told)


def test_damage_changes_one_byte() -> None:
    ends = Ends(replace(CALM, corrupt=1.0))
    ends.network.send(0, 1, 0, bytes(64))
    ends.scheduler.run_until(1)
    assert sum(byte != 0 for byte in ends.frames[0]) == 1


def test_a_narrow_pipe_lets_frames_wait_for_each_other() -> None:
    for options in (CALM, replace(DATAGRAM, loss=0.0, double=0.0)):
        ends = Ends(replace(options, bandwidth=400.0))
        ends.send(200)
        ends.scheduler.run_until(0.995)
        assert 30 <= len(ends.frames) <= 100, "four bytes each, so a hundred a second"
        ends.scheduler.run_until(60.0)
        assert len(ends.frames) == 200
