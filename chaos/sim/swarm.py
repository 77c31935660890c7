"""One seed's world, drawn once: extreme settings find more than average ones.

Source: docs/spec/chaos.md 5.1.

Every number that shapes a run is here, so `dledger sim --seed N -v` can print why it was as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from chaos.sim.disk import CutPolicy
from chaos.sim.network import NetworkOptions

GAP_MIN = 1.5


@dataclass(frozen=True, slots=True)
class DiskOptions:
    """Sync times in seconds; `tail` is the chance that one takes up to `tail_max`."""

    sync: float
    tail: float
    tail_max: float
    cut: CutPolicy


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Small on purpose, so that files roll, windows fill and frames are cut within a minute."""

    file_size: int
    slots_per_file: int
    cache_size_max: int
    frame_bytes_max: int
    window_frames_max: int
    heartbeat: float
    election_min: float
    election_max: float


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Clients. `operations_per_second` is asked for; outages make it less."""

    appenders: int
    readers: int
    operations_per_second: float
    batch_max: int
    body_bytes_max: int
    timeout: float
    loss: float
    anonymous: float
    transfer_rate: float


@dataclass(frozen=True, slots=True)
class SwarmOptions:
    """All of it. `faults`: weight per kind, 0 when this seed does not use it."""

    nodes: int
    network: NetworkOptions
    disk: DiskOptions
    log: LogOptions
    load: LoadOptions
    fault_gap_max: float
    leader_aim: float
    drift: float
    faults: dict[str, float]
    #: Shortest time between the beginnings of two faults; seconds.
    fault_gap_min: float = GAP_MIN


def draw(random: Random, nodes: int, kinds: tuple[str, ...]) -> SwarmOptions:
    """Draw a seed's options. Each fault kind is off in a third of the seeds, or twice as likely."""
    faults = {kind: random.choice((0.0, 1.0, 2.0)) for kind in kinds}
    if not any(faults.values()):
        faults = dict.fromkeys(kinds, 1.0)
    return SwarmOptions(
        nodes=nodes,
        network=_network(random),
        disk=_disk(random),
        log=_log(random),
        load=_load(random),
        fault_gap_max=random.choice((3.5, 4.5, 4.9)),
        leader_aim=random.choice((0.2, 0.5, 0.8)),
        drift=random.choice((0.0, 0.001, 0.05)),
        faults=faults,
    )


def _network(random: Random) -> NetworkOptions:
    datagram = random.random() < 0.5
    return NetworkOptions(
        datagram=datagram,
        latency=random.choice((0.0001, 0.0005, 0.002, 0.01)),
        jitter=random.choice((0.0002, 0.001, 0.005, 0.03)),
        tail=random.choice((0.0, 0.001, 0.02)),
        tail_max=random.choice((0.2, 1.0, 3.0)),
        loss=random.choice((0.0, 0.001, 0.02, 0.1)) if datagram else 0.0,
        double=random.choice((0.0, 0.01, 0.1)) if datagram else 0.0,
        corrupt=random.choice((0.0, 0.0, 0.002)),
        break_rate=0.0 if datagram else random.choice((0.0, 0.0005, 0.005)),
    )


def _disk(random: Random) -> DiskOptions:
    kept = random.choice((0.0, 0.3, 0.7, 1.0))
    return DiskOptions(
        sync=random.choice((0.0003, 0.002, 0.01, 0.04)),
        tail=random.choice((0.0, 0.005, 0.05)),
        tail_max=random.choice((0.1, 0.5, 2.0)),
        cut=CutPolicy(sector_kept=kept, name_kept=random.choice((0.0, 0.5, 1.0))),
    )


def _log(random: Random) -> LogOptions:
    heartbeat, low, high = random.choice(((0.1, 0.3, 0.6), (0.3, 0.9, 1.8), (0.5, 1.5, 3.0)))
    return LogOptions(
        file_size=random.choice((8, 16, 64)) * 1024,
        slots_per_file=random.choice((64, 256, 1024)),
        cache_size_max=random.choice((0, 6000, *[1 << 20] * 6)),
        frame_bytes_max=random.choice((2000, 8192, 1 << 20)),
        window_frames_max=random.choice((1, 4, 128)),
        heartbeat=heartbeat,
        election_min=low,
        election_max=high,
    )


def _load(random: Random) -> LoadOptions:
    return LoadOptions(
        appenders=random.choice((2, 3, 5)),
        readers=random.choice((1, 2)),
        operations_per_second=random.choice((14.0, 16.0)),
        batch_max=random.choice((2, 8, 16)),
        body_bytes_max=random.choice((40, 200, 1000)),
        timeout=random.choice((0.4, 1.0, 2.0)),
        loss=random.choice((0.0, 0.01, 0.05)),
        anonymous=random.choice((0.0, 0.2)),
        transfer_rate=random.choice((0.0, 0.1)),
    )
