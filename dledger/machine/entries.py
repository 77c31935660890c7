"""Entries of the log that carry commands: bytes ⇄ values. Pure.

    off size field
      0   4  magic      "DLRM"
      4   1  version    1; a node that reads another one stops
      5   1  kind       1 command, 2 open a session, 3 compare results, 4 several commands
      6   2  reserved   0
      8   8  time_ms    the leader's wall clock as it took the entry, ms since 1970
     16   8  session    the index of the entry that opened it; to open one: 0
     24   8  sequence   counts up within the session; to open one: a number of its opener's own
     32   8  lowest     smaller sequences of the session are not waited for any more
     40   n  command    compare: window 8 | count 4 | count × (offset 2 | CRC-32 of the result 4)
                        | UTF-8 name of the node; of the state at the end of window w: window
                        -1 - w, count 1, its checksum; former releases pass that over
                        | several commands: count 4 | count × size 4 | the commands; their sequences
                        count up by one from the head's

Commands that are proposed together share an entry: its header, its place in the index and its
passage through the log are the larger part of a small command's cost. At most `COMMANDS_MAX` do, so
that the results of one entry are bounded (applier.py). Nodes of feature level 0 cannot read such an
entry, so a leader writes none before all members say that they are of `LEVEL` (`Member.level`).

All integers are big-endian. Bytes 4-8 are no envelope's (replica/envelope.py), so the log's own
entries and these cannot be taken for each other.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from commitlog.files.system import Buffer

_HEAD = struct.Struct(">4sBBHqqqq")
#: The same in five numbers, of which only the fourth, the sequence, differs in one proposal.
_ALIKE = struct.Struct(">5Q")
HEAD_SIZE = _HEAD.size
_COUNT = struct.Struct(">I")
_MAGIC, _VERSION = b"DLRM", 1
assert HEAD_SIZE == _ALIKE.size == 40


#: Feature level of a node that reads entries of several commands.
LEVEL = 1
#: Commands of one entry, and bytes of its body.
COMMANDS_MAX, COMMANDS_BYTES_MAX = 64, 1 << 17


class Kind(enum.IntEnum):
    """The purpose of an entry."""

    COMMAND = 1
    OPEN = 2
    COMPARE = 3
    COMMANDS = 4


Item = tuple[int, int, Buffer]
"""(kind, sequence, bytes as the log has them) of a command on its way to the log, or to the leader.

A plain tuple: one with names takes three times as long to make, and each command needs one."""

_KINDS = frozenset(map(int, Kind))


def pack_entry(item: Item, time_ms: int, session: int, lowest: int) -> bytes:
    """The body of the entry that carries `item`."""
    kind, sequence, data = item
    return _HEAD.pack(_MAGIC, _VERSION, kind, 0, time_ms, session, sequence, lowest) + data


def pack_entries(
    items: Iterable[Item],
    time_ms: int,
    session: int,
    lowest: int,
    *,
    commands_max: int = 1,
    size_max: int = COMMANDS_BYTES_MAX,
) -> list[bytes]:
    """The bodies of the entries that carry `items`, of one session.

    `commands_max`: so many commands may share an entry (1 to `COMMANDS_MAX`), whose body has at
    most `size_max` bytes.
    """
    if commands_max == 1:
        return [pack_entry(item, time_ms, session, lowest) for item in items]
    bodies: list[bytes] = []
    given = list(items)
    for begin in range(0, len(given), commands_max):
        for some in _groups(given[begin : begin + commands_max], size_max):
            if len(some) == 1:
                bodies.append(pack_entry(some[0], time_ms, session, lowest))
                continue
            datas = [data for _, _, data in some]
            sizes = struct.pack(f">{len(some) + 1}I", len(some), *map(len, datas))
            kind, sequence = Kind.COMMANDS, some[0][1]
            head = _HEAD.pack(_MAGIC, _VERSION, kind, 0, time_ms, session, sequence, lowest)
            bodies.append(b"".join((head, sizes, *datas)))
    return bodies


def _groups(items: Sequence[Item], size_max: int) -> Sequence[Sequence[Item]]:
    """Items in order, those together that may share an entry: a few, at most `COMMANDS_MAX`."""
    kinds, sequences, datas = zip(*items, strict=True)
    first, count = sequences[0], len(items)
    size = HEAD_SIZE + _COUNT.size * (count + 1) + sum(map(len, datas))
    if (
        size <= size_max
        and kinds.count(_COMMAND_KIND) == count
        and sequences == tuple(range(first, first + count))
    ):  # nearly always
        return [items]
    groups: list[list[Item]] = [[items[0]]]
    size = HEAD_SIZE + 2 * _COUNT.size + len(datas[0])
    for before, item in pairwise(items):
        size += _COUNT.size + len(item[2])
        is_next = item[1] == before[1] + 1 and item[0] == before[0] == _COMMAND_KIND
        if is_next and size <= size_max:
            groups[-1].append(item)
        else:
            groups.append([item])
            size = HEAD_SIZE + 2 * _COUNT.size + len(item[2])
    return groups


_COMMAND_KIND = int(Kind.COMMAND)


def commands_of(body: Buffer) -> list[bytes]:
    """The commands of an entry of several, in order. Raises ValueError for bytes that hold none."""
    try:
        (count,) = _COUNT.unpack_from(body, HEAD_SIZE)
        begin = HEAD_SIZE + _COUNT.size * (count + 1)
        sizes = struct.unpack_from(f">{count}I", body, HEAD_SIZE + _COUNT.size)
    except struct.error as error:
        raise ValueError(f"the sizes of its commands are cut off ({error})") from error
    data = bytes(memoryview(body)[begin:])
    if not count or sum(sizes) != len(data):
        raise ValueError(f"its {count} commands have {sum(sizes)} bytes, and {len(data)} are there")
    return [data[end - size : end] for size, end in zip(sizes, accumulate(sizes), strict=True)]


Row = tuple[int, int, Buffer]
"""An entry of the log: index, term, body."""


class Piece:
    """Entries up to the one that makes their commands `count_max`, in one pass.

    Attributes:
        count: commands of those that were passed; an entry of another kind counts for one.
    """

    def __init__(self, rows: Iterable[Row], count_max: int) -> None:
        self._rows, self._count_max = rows, count_max
        self.count = 0

    def __iter__(self) -> Iterator[Row]:
        count, count_max = 0, self._count_max
        for row in self._rows:
            body = row[2]
            count += 1
            if len(body) > HEAD_SIZE and body[_KIND_AT] == _SHARED:
                count += _count_of(body) - 1
            yield row
            if count >= count_max:
                break
        self.count = count


def _count_of(body: Buffer) -> int:
    """Commands of an entry that seems to have several, 1 for bytes of another one."""
    if len(body) < HEAD_SIZE + _COUNT.size or body[: len(_MAGIC)] != _MAGIC:
        return 1
    (count,) = _COUNT.unpack_from(body, HEAD_SIZE)
    return int(count)


#: Where the kind of an entry stands, and that of one of several commands.
_KIND_AT, _SHARED = 5, int(Kind.COMMANDS)

Opened = tuple[int, int, Buffer, int, int, int, int, int]
"""index, term and body of an entry; kind, time_ms, session, sequence and lowest of its head."""

OTHER, LATER = 0, -1
"""Kinds that are none: of another one's entry, and of one that a later release wrote."""


def opened(entries: Iterable[Row]) -> Iterator[Opened]:
    """Takes the heads of entries (index, term, body) apart, in order.

    What is no entry of ours has kind OTHER or LATER, and zeros. The command is `body[HEAD_SIZE:]`.
    """
    unpack = _HEAD.unpack_from
    for index, term, body in entries:
        if len(body) >= HEAD_SIZE:
            magic, version, kind, _, time_ms, session, sequence, lowest = unpack(body)
            if magic == _MAGIC:
                if version == _VERSION and kind in _KINDS:
                    yield index, term, body, kind, time_ms, session, sequence, lowest
                else:
                    yield index, term, body, LATER, 0, 0, 0, 0
                continue
        yield index, term, body, OTHER, 0, 0, 0, 0


class Run(NamedTuple):
    """Entries up to `end` that one proposal has made: commands with sequences that count up by one.

    `sequence` is the first one's; the rest of the head is the same in all. No session -1 exists: it
    stands for entries that are to be looked at one by one.
    """

    end: int
    time_ms: int = 0
    session: int = -1
    sequence: int = 0
    lowest: int = 0


def runs_of(rows: Sequence[Row]) -> list[Run]:
    """All entries, in order, as runs."""
    if len(rows) < _RUN_MIN or min([len(body) for _, _, body in rows]) < HEAD_SIZE:
        return [Run(len(rows))]
    unpack, found, begin, has_others = _ALIKE.unpack_from, list[Run](), 0, False
    heads = [unpack(body) for _, _, body in rows]
    while begin < len(heads):
        end = _end_of_run(heads, begin)
        if end - begin >= _RUN_MIN:
            magic, version, kind, _, *numbers = _HEAD.unpack_from(rows[begin][2])
            if (magic, version, kind) == _COMMAND:
                if has_others:
                    found.append(Run(begin))
                found.append(Run(end, *numbers))
                begin, has_others = end, False
                continue
        begin, has_others = end, True
    if has_others:
        found.append(Run(begin))
    return found


def _end_of_run(heads: Sequence[tuple[int, ...]], begin: int) -> int:
    """Where heads end that differ from the one at `begin` by one more in the sequence each."""
    what, time_ms, session, first, lowest = heads[begin]
    count = len(heads) - begin
    if heads[-1] == (what, time_ms, session, first + count - 1, lowest):
        whats, times, sessions, sequences, lows = zip(*heads[begin:], strict=True)
        if (
            whats.count(what) == times.count(time_ms) == sessions.count(session) == count
            and lows.count(lowest) == count
            and sequences == tuple(range(first, first + count))
        ):  # nearly always, and compared in a tenth of the time; tried where the last one agrees
            return begin + count
    end = begin + 1
    while end < len(heads) and heads[end] == (
        what, time_ms, session, first + end - begin, lowest,
    ):  # fmt: skip
        end += 1
    return end


_COMMAND = (_MAGIC, _VERSION, int(Kind.COMMAND))
#: Fewer alike are looked at one by one.
_RUN_MIN = 3
