"""The clients' work during faults: pure generators of wishes, the same from the same seed.

    queues      producers with a number of their own (idempotent), one message at a time, retried
    keyed       messages with a key: all of one key in one queue, in order
    in memory   producers that are acknowledged when a majority has it in memory (R22)
    readers     each reads every queue from its beginning, asking any replica
    registers   "how far is the queue and what stands last": a linearizable read (ReadIndex)
    sessions    each sends and asks how far that queue is, in turn, of any replica: it knows its own
    groups      a consumer group commits positions and asks for them again
    delayed     messages that nobody may see before their time, and everybody must see after it
    halves      messages of transactions: committed, rolled back, decided when a broker asks, never

Churn of members is no client here but a kind of fault (`membership`): a schedule must know of it,
or it would take away more nodes than a quorum tolerates, and what comes of it is seen in the nodes'
configurations, not in what a client is told.

A *wish* is what a process wants next; the arena grants it and writes the `chaos.history` operation
down. Values are unique, `<process>-<number>`, and stand at the beginning of the body, so that each
replica's own files can be read without any index.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

BODY_BYTES_MAX = 64 << 10  # runs are judged from whole logs: larger bodies only cost time


class Want(enum.Enum):
    """The operation that a process wants next."""

    SEND = "send"
    SEND_KEYED = "send-keyed"
    SEND_IN_MEMORY = "send-in-memory"
    READ = "read"
    POLL = "poll"
    COMMIT = "commit"
    FETCH = "fetch"
    SEND_DELAYED = "send-delayed"
    SEND_HALF = "send-half"
    SEND_AND_READ = "send-and-read"


SENDS = (Want.SEND, Want.SEND_KEYED, Want.SEND_IN_MEMORY)
DEFERRED_SENDS = (Want.SEND_DELAYED, Want.SEND_HALF)
LEVEL_SECONDS = (1.0, 5.0)  # RocketMQ's delay levels 1 and 2
TIMER_SECONDS = (0.2, 6.0)


class Ending(enum.Enum):
    """The end of a half message, and how its broker learns it."""

    COMMIT = "commit"
    ROLLBACK = "rollback"
    COMMIT_WHEN_ASKED = "commit-when-asked"
    ROLLBACK_WHEN_ASKED = "rollback-when-asked"
    NEVER = "never"


class Way(enum.Enum):
    """How a delayed message names its time."""

    LEVEL = "level"
    AFTER = "after"
    AT = "at"


@dataclass(frozen=True, slots=True)
class Delay:
    """`seconds` from the send on; of a level they are the level's."""

    way: Way
    seconds: float

    @property
    def level(self) -> int:
        """RocketMQ's delay level, from 1. Raises ValueError when `seconds` is not one of a
        level.
        """
        return LEVEL_SECONDS.index(self.seconds) + 1


@dataclass(frozen=True, slots=True)
class Wish:
    """`queue` is a queue's number, `key` a message key; `value` and `body` are of sends only,
    `delay` and `ending` of those that wait."""

    want: Want
    queue: int
    value: str = ""
    body: bytes = b""
    key: str = ""
    delay: Delay | None = None
    ending: Ending | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """How many of each, and how fast.

    Attributes:
        queues: of the one topic.
        producers, keyed: processes that send, without and with keys.
        in_memory: processes that send and are answered before any sync.
        readers: processes that read everything.
        registers: processes that ask for the end of queues.
        groups: consumer groups, one process each.
        rate: sends a second of all producers together.
        asks: reads, polls, commits, sends that wait a second of each other process.
        body_bytes_max: bodies have 1 byte to so many.
        delayed: processes that send messages for later.
        transactional: processes that send halves of transactions.
        sessions: processes that send and read in turn; each must read its own sends.
    """

    queues: int = 4
    producers: int = 6
    keyed: int = 2
    readers: int = 2
    registers: int = 2
    groups: int = 1
    rate: float = 200.0
    asks: float = 10.0
    body_bytes_max: int = 512
    in_memory: int = 0
    delayed: int = 0
    transactional: int = 0
    sessions: int = 0

    def __post_init__(self) -> None:
        if self.queues < 1 or self.producers + self.keyed < 1:
            raise ValueError("a workload needs a queue and a producer")
        if not 1 <= self.body_bytes_max <= BODY_BYTES_MAX:
            raise ValueError(f"body_bytes_max must be 1 to {BODY_BYTES_MAX}")
        if self.rate <= 0 or self.asks <= 0:
            raise ValueError("rate and asks must be above 0")

    @property
    def pause(self) -> float:
        """Seconds between two sends of one process."""
        return (self.producers + self.keyed + self.in_memory) / self.rate


def processes(workload: Workload) -> dict[str, Want]:
    """Returns every process's name and its operation; a group's process alternates commits and
    fetches."""
    found = {f"p{n}": Want.SEND for n in range(workload.producers)}
    found |= {f"k{n}": Want.SEND_KEYED for n in range(workload.keyed)}
    found |= {f"m{n}": Want.SEND_IN_MEMORY for n in range(workload.in_memory)}
    found |= {f"r{n}": Want.POLL for n in range(workload.readers)}
    found |= {f"t{n}": Want.READ for n in range(workload.registers)}
    found |= {f"s{n}": Want.SEND_AND_READ for n in range(workload.sessions)}
    found |= {f"g{n}": Want.COMMIT for n in range(workload.groups)}
    found |= {f"d{n}": Want.SEND_DELAYED for n in range(workload.delayed)}
    found |= {f"x{n}": Want.SEND_HALF for n in range(workload.transactional)}
    return found


def wishes(workload: Workload, process: str, want: Want, seed: int) -> Iterator[Wish]:
    """Yields the wishes of one process, without end."""
    random = Random(f"{seed}/{process}")
    number = 0
    while True:  # as long as the arena asks
        queue = random.randrange(workload.queues)
        if want in SENDS:
            value = f"{process}-{number}"
            key = process if want is Want.SEND_KEYED else ""
            yield Wish(want, queue, value, _body(random, value, workload.body_bytes_max), key)
        elif want is Want.COMMIT:
            yield Wish(Want.COMMIT if number % 3 else Want.FETCH, queue)
        elif want is Want.SEND_AND_READ:
            value = f"{process}-{number}"
            yield Wish(Want.SEND, queue, value, _body(random, value, workload.body_bytes_max))
            yield Wish(Want.READ, queue)
        elif want in DEFERRED_SENDS:
            yield _waiting(random, want, queue, f"{process}-{number}", workload.body_bytes_max)
        else:
            yield Wish(want, queue)
        number += 1


def _waiting(random: Random, want: Want, queue: int, value: str, size_max: int) -> Wish:
    body = _body(random, value, size_max)
    if want is Want.SEND_HALF:
        return Wish(want, queue, value, body, ending=random.choice(tuple(Ending)))
    way = random.choice(tuple(Way))
    seconds = (
        random.choice(LEVEL_SECONDS)
        if way is Way.LEVEL
        else round(random.uniform(*TIMER_SECONDS), 3)
    )
    return Wish(want, queue, value, body, delay=Delay(way, seconds))


def _body(random: Random, value: str, size_max: int) -> bytes:
    head = f"{value} ".encode()
    return head + random.randbytes(random.randrange(size_max)).replace(b" ", b"_")


def value_of(body: bytes) -> str:
    """The unique value at the beginning of a body."""
    return bytes(body[:80]).partition(b" ")[0].decode("ascii", "replace")
