"""Logs of entries in memory, of runs of messages that look alike, and of everything else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from random import Random

from commitlog.records.hosts import Host, pack_host
from commitlog.records.message_fast import encode_record, topic_field
from commitlog.records.record import BLANK, HEADER, HEADER_SIZE, MAGIC_BLANK

V4, V6 = pack_host(Host("10.0.0.1", 1)), pack_host(Host("::1", 2))


@dataclass(frozen=True)
class Run:
    """`count` messages of one producer in one queue.

    `keys`, `tags`: values, "" for none; "#" in `keys` becomes the message's number. `odd`: a whole
    property block instead of the usual one, "#" in it too. `flag`: sysFlag.
    """

    topic: str = "T"
    queue: int = 0
    count: int = 1
    producer: str = "p"
    keys: str = ""
    tags: str = ""
    body_size: int = 10
    flag: int = 0
    host: bytes = V4
    odd: bytes | None = None


class EntryLog:
    """`data` grows; `starts` are where entries begin in it."""

    def __init__(self, first_number: int = 0) -> None:
        self.first_number = first_number
        self.data = bytearray()
        self.starts: list[int] = []
        self.offsets: dict[tuple[str, int], int] = {}
        self._numbers: dict[tuple[str, str, int], int] = {}
        self._unique = count(first_number)

    def add(self, run: Run) -> None:
        for _ in range(run.count):
            self.message(run)

    def message(self, run: Run) -> None:
        place = (run.topic, run.queue)
        offset = self.offsets.get(place, 0)
        if run.flag & 0xC in (0, 8):
            self.offsets[place] = offset + 1
        address = len(self.data) + HEADER_SIZE
        record = encode_record(
            topic_field(run.topic), self.properties(run), b"b" * run.body_size, run.queue, 0,
            run.flag, 0, run.host, V4, 0, 0, offset, address, 1_000_000 + len(self.starts) * 37,
        )  # fmt: skip
        self.entry(bytes(record))

    def properties(self, run: Run) -> bytes:
        number = next(self._unique)
        if run.odd is not None:
            return run.odd.replace(b"#", b"%d" % number)
        block = b""
        if run.producer:
            key = (run.producer, run.topic, run.queue)
            sequence = self._numbers.get(key, self.first_number)
            self._numbers[key] = sequence + 1
            block += f"__PID\x01{run.producer}\x02__SEQ\x01{sequence}\x02".encode()
        block += b"UNIQ_KEY\x01%032X\x02" % (number * 7919)
        if run.keys:
            block += f"KEYS\x01{run.keys}\x02".replace("#", str(number)).encode()
        if run.tags:
            block += f"TAGS\x01{run.tags}\x02".encode()
        return block

    def entry(self, body: bytes) -> None:
        size = HEADER_SIZE + len(body)
        head = (1, size, len(self.starts), 1, len(self.data), 0, 0, 0, len(body))
        self.starts.append(len(self.data))
        self.data += HEADER.pack(*head) + body

    def blank(self, size: int) -> None:
        self.data += BLANK.pack(MAGIC_BLANK, size).ljust(size, b"\0")


_SPOILS = (b"\0", b"\x01", b"\x02", b"\x02", b" ", b"5", b"A", "é".encode(), b"\xff")
_ODD_BLOCKS = (
    b"__PID\x01p\x02a\x01#\x02__SEQ\x01#\x02UNIQ_KEY\x01AC#\x02",
    b"a\x01__PID\x01p\x02__SEQ\x011#\x02KEYS\x01k# l\x02",
    b"__PID\x01p\x02__SEQ\x01x#\x02TAGS\x01TagA",
    b"X__PID\x01p#\x02__SEQ\x017\x02UNIQ_KEY\x01#\x02UNIQ_KEY\x01z#",
    b"TAGS\x01#\x02KEYS\x01#",
    b"TAGS\x01a\x02TAGS\x01b\x02user\x01\xc3#\x02",
    b"",
)


def random_log(random: Random) -> EntryLog:
    """Runs of few shapes, most of them read as columns, with a spoilt message here and there."""
    log = EntryLog(random.choice([0, 1000]))
    shapes = [_random_run(random) for _ in range(random.randint(1, 4))]
    spoil_share = random.choice([0, 0.02, 0.1])
    for _ in range(random.randint(1, 12)):
        run = replace(random.choice(shapes), count=random.randint(1, 12))
        if random.random() < 0.3:
            run = replace(run, queue=random.randint(0, 2))
        for _ in range(run.count):
            if random.random() < spoil_share:
                _spoilt(log, run, random)
            else:
                log.message(run)
        if random.random() < 0.1:
            log.blank(random.choice([8, 30, 200]))
    return log


def _random_run(random: Random) -> Run:
    return Run(
        topic=random.choice(["T", "T", "T", "S", "订单"]),
        queue=random.randint(0, 2),
        producer=random.choice(["p", "p", "q", "", "é"]),
        keys=random.choice(["", "", "k#", "a #", "#  b", "é#", " "]),
        tags=random.choice(["", "", "TagA", "TagB", "éé"]),
        body_size=random.choice([0, 10, 10, 33]),
        odd=random.choice([None, None, None, *_ODD_BLOCKS]),
    )


def _spoilt(log: EntryLog, run: Run, random: Random) -> None:
    """One message like the others of its run but for something."""
    what = random.randint(0, 9)
    place = (run.topic, run.queue)
    if what == 0:
        run = replace(run, flag=random.choice([4, 8, 12]))
    elif what == 1:
        run = replace(run, topic=random.choice(["U", "U", "SCHEDULE_TOPIC_XXXX", "x" * 130]))
    elif what == 2:
        run = replace(run, host=V6)
    elif what == 3 and log.offsets.get(place):
        log.offsets[place] += random.choice([-1, 1])
    else:
        block = log.properties(run)
        at = random.choice([random.randint(0, len(block)), random.randint(9, 45), 14, 15])
        spoil = random.choice(_SPOILS)
        run = replace(run, odd=block[:at] + spoil + block[at + len(spoil) :])
    for _ in range(random.choice([1, 1, 3])):
        log.message(run)
