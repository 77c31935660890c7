"""Faults of disks; the operator (chaos/sim/operator.py) replaces disks that failed for good."""

from __future__ import annotations

from chaos.sim.kinds.stage import Injector, Stage
from chaos.sim.node import SimNode


def disk_slow(stage: Stage, victim: SimNode) -> None:
    """Syncs take many times as long."""
    victim.slow = stage.random.choice((10.0, 50.0))

    def fast() -> None:
        victim.slow = 1.0

    stage.ends(fast, 3.0)


def disk_hang(stage: Stage, victim: SimNode) -> None:
    """No sync ends before the disk is free again."""
    victim.hang_disk()
    stage.ends(victim.free_disk, 6.0)


def disk_lags(stage: Stage, victim: SimNode) -> None:
    """Slow, or hung."""
    (disk_slow if stage.random.random() < 0.5 else disk_hang)(stage, victim)


def io_fails(stage: Stage, victim: SimNode) -> None:
    """Let writes and syncs, or reads, fail with EIO."""
    (io_error if stage.random.random() < 0.7 else read_error)(stage, victim)


def io_error(stage: Stage, victim: SimNode) -> None:
    """One of the next operations and all after it fail with EIO."""
    victim.excused = True
    victim.disk.fail(stage.random.randint(1, 20))


def read_error(stage: Stage, victim: SimNode) -> None:
    """Reads fail with EIO."""
    victim.excused = True
    victim.disk.read_error = True

    def heal() -> None:
        victim.disk.read_error = False

    stage.ends(heal, 2.0)


def disk_full(stage: Stage, victim: SimNode) -> None:
    """ENOSPC for new files. No node ends by it; a start may have to wait for space."""
    victim.disk.free = 0

    def space() -> None:
        victim.disk.free = 1 << 40

    stage.ends(space, 3.0)


def file_limit(stage: Stage, victim: SimNode) -> None:
    """EFBIG: no file can be written behind a certain position."""
    victim.excused = True
    victim.disk.file_limit = int(stage.options.log.file_size * stage.random.choice((0.0, 0.5)))

    def lift() -> None:
        victim.disk.file_limit = 1 << 62

    stage.ends(lift, 3.0)


def fsync_lies(stage: Stage, victim: SimNode) -> None:
    """Syncs have no effect, then all power goes. A negative control: the run must lose acknowledged
    messages."""
    victim.disk.lies = True

    def cut() -> None:
        if victim.disk.lies:  # it was not replaced meanwhile
            victim.crash(power=True)
            victim.disk.lies = False
            victim.start()

    stage.ends(cut, 3.0)


def rollback(stage: Stage, victim: SimNode) -> None:
    """See chaos/sim/rot.py."""
    stage.rot.roll_back(victim, stage.random)


def bit_rot(stage: Stage, victim: SimNode) -> None:
    """See chaos/sim/rot.py."""
    stage.rot.begin(victim, stage.random)


INJECTORS: dict[str, Injector] = {
    "disk-slow": disk_slow,
    "disk-hang": disk_hang,
    "io-error": io_error,
    "read-error": read_error,
    "disk-full": disk_full,
    "bit-rot": bit_rot,
}
