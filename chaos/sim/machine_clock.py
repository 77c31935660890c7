"""The clock of one machine: its own zero and its own speed, both of which may change."""

from __future__ import annotations

from abc import ABC, abstractmethod

from chaos.sim.scheduler import Scheduler


class MachineClock(ABC):
    """The clock of one simulated machine, which faults turn. Subclasses set their timer again in
    `_set_timer`, because a turned clock changes when it is due."""

    scheduler: Scheduler
    _offset: float
    _rate: float

    @property
    def now(self) -> float:
        """The machine's time in seconds: true time times its rate, plus its offset."""
        return self._offset + self.scheduler.now * self._rate

    def skip_clock(self, seconds: float) -> None:
        """The machine was asleep: its clock jumps ahead."""
        self._offset += seconds
        self._set_timer()

    def set_rate(self, rate: float) -> None:
        """From now on it is so many times as fast as time."""
        self._offset, self._rate = self.now - self.scheduler.now * rate, rate
        self._set_timer()

    @abstractmethod
    def _set_timer(self) -> None: ...
