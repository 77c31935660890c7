"""Faults of the whole network for a while: slower, lossy, damaged. Every pipe has them at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from chaos.sim.kinds.stage import Stage
from chaos.sim.node import SimNode

SECONDS_MAX = 3.0


def _change(stage: Stage, **changes: Any) -> None:
    """Changes options of the network until the fault ends, and then restores these options only,
    because another fault may have changed others."""
    network = stage.network
    usual: dict[str, Any] = {name: getattr(stage.options.network, name) for name in changes}
    network.options = replace(network.options, **changes)

    def calm_down() -> None:
        network.options = replace(network.options, **usual)

    stage.ends(calm_down, SECONDS_MAX)


def latency(stage: Stage, victim: SimNode) -> None:
    """Delay and jitter as between continents."""
    _change(
        stage, latency=stage.random.choice((0.03, 0.1)), jitter=stage.random.choice((0.005, 0.05))
    )


def bandwidth(stage: Stage, victim: SimNode) -> None:
    """Limits the links to a few bytes a second, so that a backlog comes late, and heartbeats behind
    it."""
    _change(stage, bandwidth=stage.random.choice((3000.0, 20_000.0)))


def loss(stage: Stage, victim: SimNode) -> None:
    """Datagrams are lost; a stream stalls until it has sent again."""
    if stage.network.options.datagram:
        _change(stage, loss=stage.random.choice((0.05, 0.2)))
    else:
        _change(stage, tail=0.1, tail_max=stage.random.choice((0.2, 0.6)))


def corrupt(stage: Stage, victim: SimNode) -> None:
    """Some frames arrive with flipped bits."""
    _change(stage, corrupt=stage.random.choice((0.005, 0.05)))
