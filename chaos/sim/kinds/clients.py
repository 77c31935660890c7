"""Faults of clients and of their requests."""

from __future__ import annotations

from chaos.sim.kinds.stage import Stage
from chaos.sim.node import SimNode

REPLAY_SECONDS_MAX = 3.0


def vanish(stage: Stage, victim: SimNode) -> None:
    """One appending client ends in the middle of its work; a new producer takes its place."""
    stage.random.choice(stage.environment.appenders).vanish()


def replay(stage: Stage, victim: SimNode) -> None:
    """Requests of producers that number their messages arrive twice."""
    environment = stage.environment
    environment.replay = stage.random.choice((0.2, 0.8))

    def once() -> None:
        environment.replay = 0.0

    stage.ends(once, REPLAY_SECONDS_MAX)
