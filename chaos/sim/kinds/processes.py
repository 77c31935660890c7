"""Faults of processes, power and clocks."""

from __future__ import annotations

from chaos.sim.disk import CutPolicy
from chaos.sim.kinds.stage import Injector, Stage
from chaos.sim.node import SimNode

#: kill, crash-loop, power and clean stop: how long a machine stays down, in seconds.
DOWN_MAX = 4.0
#: How long a machine stutters when nothing else was planned, in seconds.
STUTTER_SECONDS = 2.0


def down(stage: Stage, node: SimNode, *, power: bool) -> None:
    """The process dies, with `power` the machine; it is started again later."""
    node.crash(power=power)
    stage.ends(node.start, DOWN_MAX if stage.random.random() < 0.5 else 0.3)


def kill(stage: Stage, victim: SimNode) -> None:
    """SIGKILL."""
    down(stage, victim, power=False)


def kill_all(stage: Stage, victim: SimNode) -> None:
    """SIGKILL of all nodes."""
    for node in stage.nodes:
        down(stage, node, power=False)


def power_loss(stage: Stage, victim: SimNode) -> None:
    """Cuts the power of one machine: its un-synced writes are lost, or torn."""
    down(stage, victim, power=True)


def power_all(stage: Stage, victim: SimNode) -> None:
    """The same for all machines at once."""
    for node in stage.nodes:
        down(stage, node, power=True)


def power_partial(stage: Stage, victim: SimNode) -> None:
    """Cuts the power after about half of the un-synced writes had reached the disk anyhow."""
    victim.crash(power=True, policy=CutPolicy(sector_kept=0.5, name_kept=0.5))
    stage.ends(victim.start, DOWN_MAX)


def torn_tail(stage: Stage, victim: SimNode) -> None:
    """Power goes in the middle of one of the next writes; its first part may be on the disk."""
    boot = victim.boot
    victim.disk.fuse(stage.random.randint(1, 4), power=True)
    stage.ends(lambda: _cut_off(stage, victim, boot), 1.0)


def stop(stage: Stage, victim: SimNode) -> None:
    """SIGTERM."""
    victim.stop()
    stage.ends(victim.start, 1.0)


def crash_loop(stage: Stage, victim: SimNode) -> None:
    """Dies again, several times, in the middle of its own recovery."""
    random = stage.random
    victim.crash(power=True)
    again = random.randint(1, 3)

    def start() -> None:
        nonlocal again
        if victim.up:
            return
        if again:
            again -= 1
            victim.disk.fuse(random.randint(1, 16), power=random.random() < 0.5)
            victim.start()
            if victim.up:
                victim.crash(power=True)
            stage.later(start, 0.3)
        else:
            victim.start()

    stage.later(start, 0.3)


def failpoint(stage: Stage, victim: SimNode) -> None:
    """Power goes, or the process dies, in the middle of one of the next disk operations."""
    power = stage.random.random() < 0.6
    victim.disk.fuse(stage.random.randint(1, 20), power=power)
    boot = victim.boot
    stage.later(lambda: _cut_off(stage, victim, boot), 1.0)


def snapshot_cut(stage: Stage, victim: SimNode) -> None:
    """Dies in the middle of beginning the next log file; when none is begun, without that."""
    victim.disk.cut_create = True
    boot = victim.boot

    def end() -> None:
        victim.disk.cut_create = False
        _cut_off(stage, victim, boot)

    stage.ends(end, 3.0)


def _cut_off(stage: Stage, victim: SimNode, boot: int) -> None:
    """Cuts the victim's power, if its fuse did not crash it before; starts it again later."""
    if victim.boot == boot:
        victim.crash(power=True)
    if not victim.up:
        stage.later(victim.start, 1.0)


def pause(stage: Stage, victim: SimNode) -> None:
    """SIGSTOP, later SIGCONT."""
    victim.pause()
    stage.ends(victim.resume, stage.random.choice((0.3, 1.0, 4.0)))


def stutter(stage: Stage, victim: SimNode) -> None:
    """Runs for a moment now and then, as with 5 % of a processor."""
    ended = False

    def wait() -> None:
        if not ended:
            victim.pause()
            stage.later(run, 0.1)

    def run() -> None:
        victim.resume()
        stage.later(wait, 0.01)

    def end() -> None:
        nonlocal ended
        ended = True
        victim.resume()

    wait()
    stage.ends(end, STUTTER_SECONDS)


def clock(stage: Stage, victim: SimNode) -> None:
    """The machine was asleep."""
    victim.skip_clock(stage.random.choice((0.05, 0.3, 2.0, 60.0)))


INJECTORS: dict[str, Injector] = {
    "kill": kill,
    "kill-all": kill_all,
    "crash-loop": crash_loop,
    "stop": stop,
    "power-loss": power_loss,
    "power-all": power_all,
    "failpoint": failpoint,
    "pause": pause,
    "clock": clock,
}
