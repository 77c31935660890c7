"""Gives a folder new generations, and writes those met of peers (generations.py).

    timer, every RENEW_SECONDS ─► has this node promised anything? ─► files queue: write ─► announce
    a peer was met ───────────────────────────────────────────────► files queue: write

A generation is on disk before a peer hears of it. A disk that fails is noticed by the log, which
has more to say about it. No write outlives its node: it would put the file back for the next one
on this folder, and peers would take the folder for a copy from a backup. So they are work of the
node's own queue, for whose end `Driver.stop` waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from dledger.membership.generations import RENEW_SECONDS, Generations
from dledger.replica.ports import SyncWork
from dledger.runtime.owned import Owned

_log = logging.getLogger(__name__)


class _Write:
    """The number and content of one write of the file. A `SyncTask`."""

    def __init__(self, generations: Generations, number: int) -> None:
        self.number, self._generations = number, generations
        self._data = generations.capture(number)

    def run(self) -> None:
        self._generations.write(self._data)


class Renewal:
    """Runs from `start` to `stop`. `promised`: has there been anything since it was last asked?"""

    def __init__(
        self,
        generations: Generations,
        promised: Callable[[], bool],
        announce: Callable[[], None],
        owned: Owned,
        submit: Callable[[SyncWork], None],
        may_rest: Callable[[], bool] = lambda: False,
    ) -> None:
        """`submit`: has work of kind "generations" done; `ended` is told of its end.

        `may_rest`: True: the group promises nothing until `wake` is called.
        """
        self._may_rest = may_rest
        self._submit = submit
        self._generations = generations
        self._promised, self._announce = promised, announce
        self._owned = owned
        self._timer: asyncio.TimerHandle | None = None
        self._writing: tuple[_Write, SyncWork] | None = None
        self._again = self._stopped = False

    def start(self) -> None:
        """From now on write generations: the folder's own periodically, peers' when they change."""
        self._generations.changed = self._write
        self.wake()

    def wake(self) -> None:
        """Look for promises again, if it rests."""
        if self._timer is None and not self._stopped:
            self._timer = self._owned.call_later(RENEW_SECONDS, self._look)

    def stop(self) -> None:
        """Begin no write any more; one that has begun is for the queue's owner to wait for."""
        self._stopped = True
        if self._writing is not None:
            self._writing[1].withdrawn = True
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        if self._writing is None and self._promised():
            self._write(1)
        elif self._writing is None and self._may_rest():
            return
        self.wake()

    def _write(self, more: int = 0) -> None:
        """Have the file written: the number plus `more`, and the peers' generations."""
        if self._stopped:
            return
        if self._writing is not None:
            self._again = True
            return
        self._again = False
        write = _Write(self._generations, self._generations.current.number + more)
        work = SyncWork("generations", write)
        self._writing = write, work
        self._submit(work)

    def ended(self, error: BaseException | None) -> None:
        """The write has ended, well or with `error`; a mistake is raised here."""
        assert self._writing is not None, "one write at a time"
        number, self._writing = self._writing[0].number, None
        if error is not None and not isinstance(error, OSError):
            raise error
        if self._stopped:
            return
        if error is not None:
            _log.warning("the file of generations was not written: %s", error)
        elif number > self._generations.current.number:
            self._generations.renewed(number)
            self._announce()
        if self._again:
            self._write()
