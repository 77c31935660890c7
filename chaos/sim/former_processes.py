"""A network that keeps frames for a process that has ended and delivers them to its successor on
the same machine.

    in flight when a process dies     arrives later, whatever it is, if there is a process by then
    answers that a process was given  come once more, in their order, whenever the next process asks
                                      a question of the same kind, before the true answer

TCP does neither; a peer that answers late, on the new connection, has the same effect.
So no rule may assume that an arriving message was meant for this incarnation of a node. A third of
all seeds draw this. Messages for a lost disk are not kept: that node has another incarnation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

from chaos.sim.network import Pipe
from chaos.sim.scheduler import Scheduler
from dledger.wire.frames import FrameType

#: One seed in so many.
DRAWN_ONE_IN = 3
#: What was in flight comes within so many seconds of when it was due.
LATE_MAX = 3.0
#: An answer of a former incarnation comes within so many seconds of the question.
SOON_MAX = 0.001
#: Of each kind of answer, the first ones of an incarnation.
ANSWERS_MAX = 256
#: Where a frame says what it is (dledger/wire/frames.py).
_TYPE_AT = 4

_ANSWERS = {
    FrameType.VOTE_REQUEST: FrameType.VOTE_REPLY,
    FrameType.APPEND: FrameType.APPEND_REPLY,
    FrameType.HEARTBEAT: FrameType.HEARTBEAT_REPLY,
    FrameType.READ_INDEX_REQUEST: FrameType.READ_INDEX_REPLY,
    FrameType.SNAPSHOT: FrameType.SNAPSHOT_REPLY,
    FrameType.RANGE_REQUEST: FrameType.RANGE_REPLY,
}
_KEPT = frozenset(map(int, _ANSWERS.values()))
_ANSWER_OF = {int(question): int(answer) for question, answer in _ANSWERS.items()}
_Late = tuple[Pipe, bytes]


class FormerProcesses:
    """See above. `deliver` hands a frame to the process at the pipe's end.

    `drawn`: the seed has it; it may be switched on and off.
    """

    def __init__(
        self, seed: int, scheduler: Scheduler, deliver: Callable[[Pipe, bytes], None]
    ) -> None:
        self._random = Random(f"dledger-former-lives-{seed}")
        self._scheduler, self._deliver = scheduler, deliver
        self._is_of_seed = self.drawn = not self._random.randrange(DRAWN_ONE_IN)
        self._answers: dict[tuple[int, int], list[_Late]] = {}
        self._again: dict[tuple[int, int], deque[_Late]] = {}
        self._machines: dict[int, int] = {}  # how often a node has lost its disk

    def comes(self, again: bool) -> None:
        """Keep and deliver frames again, if the seed has drawn it, or none from now on."""
        self.drawn = again and self._is_of_seed

    def missed(self, pipe: Pipe, frame: bytes) -> None:
        """Take a frame that was in flight when the process that it was meant for died."""
        if self.drawn:
            self._later(LATE_MAX, (pipe, frame))

    def arrives(self, pipe: Pipe, frame: bytes) -> None:
        """A process is given a frame."""
        if self.drawn and frame[_TYPE_AT] in _KEPT:
            kept = self._answers.setdefault((pipe.target, frame[_TYPE_AT]), [])
            if len(kept) < ANSWERS_MAX:
                kept.append((pipe, frame))

    def asks(self, source: int, frame: bytes) -> None:
        """A process sends a frame."""
        answer = _ANSWER_OF.get(frame[_TYPE_AT]) if self.drawn else None
        again = None if answer is None else self._again.get((source, answer))
        if again:
            self._later(SOON_MAX, again.popleft())

    def died(self, node: int) -> None:
        """Queues the answers that the node's process was given, to be given to its next process
        again."""
        for key in [key for key in self._answers if key[0] == node]:
            self._again[key] = deque(self._answers.pop(key))

    def forget(self, node: int) -> None:
        """Another machine has its name now."""
        self._machines[node] = self._machines.get(node, 0) + 1
        for kept in (self._answers, self._again):
            for key in [key for key in kept if key[0] == node]:
                del kept[key]

    def _later(self, seconds_max: float, late: _Late) -> None:
        pipe = late[0]
        delay = self._random.random() * seconds_max
        self._scheduler.after(delay, self._arrive, (late, self._boot_of(pipe)))

    def _arrive(self, delivery: tuple[_Late, tuple[int, int]]) -> None:
        (pipe, frame), boot = delivery
        if self.drawn and boot == self._boot_of(pipe):
            self._deliver(pipe, frame)

    def _boot_of(self, pipe: Pipe) -> tuple[int, int]:
        return self._machines.get(pipe.source, 0), self._machines.get(pipe.target, 0)
