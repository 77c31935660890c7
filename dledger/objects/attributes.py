"""The attributes of an object as JSON: taken in pieces, written by a thread, read line by line.

    pieces_of      on the event loop, while no command is applied: some hundred items at a time, as
                   bytes of `marshal`, which copies what JSON has in a tenth of the time of JSON;
                   values that it refuses, such as those of a subclass, as JSON at once
    lines_of       in a thread: the same as JSON
    attributes_of  in a thread: the attributes of those lines

    {                               a line is some items, or opens or closes a large container:
    "name":"a","sizes":[1,2],       one of more than 256 items, or an attribute with containers
    "accounts":{                    among its items
    "x":1,"y":2,
    "z":3
    }
    }

Releases that read all of a state at once read this as any JSON, and what they wrote is one line.
The bytes of `marshal` are made and read in one process.
"""

from __future__ import annotations

import marshal
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple, cast

from dledger.errors import LogUsageError
from dledger.objects.replicated_object import as_json, of_json

#: Items and bytes of one piece, a part of a ms; and of one line, which no other thread interrupts.
PIECE_ITEMS, PIECE_BYTES, LINE_ITEMS = 1024, 64 << 10, 256
#: A container of more items is large.
LARGE = 256
#: The version of `marshal` that looks for no value which it has written already.
_PLAIN = 2
_OBJECTS = frozenset({dict, OrderedDict, defaultdict, Counter})
_CONTAINERS = _OBJECTS | {list}
#: Types whose values JSON gives back as they are.
_EXACT = frozenset({str, int, bool, type(None)})


class Kind(IntEnum):
    """The kind of a piece: bytes of `marshal`, or JSON that is written as it is."""

    PAIRS, ITEMS, JSON, OPEN, CLOSE = range(5)


class Piece(NamedTuple):
    """A part of a state. PAIRS: keys and values; JSON: items without the brackets around them."""

    kind: Kind
    data: bytes


def pieces_of(attributes: dict[str, Any], owner: str) -> Iterator[Piece]:
    """The pieces of all attributes, which must not change before the last one is taken.

    Raises LogUsageError for values that JSON changes, with the name of their `owner`; TypeError.
    """
    return _Taking(owner).items_of(attributes, 0)


class _Taking:
    def __init__(self, owner: str) -> None:
        self._owner = owner

    def items_of(self, found: Any, depth: int) -> Iterator[Piece]:
        """`depth`: 0 for the attributes themselves."""
        is_object = type(found) in _OBJECTS
        keys: Iterator[Any] = iter(found if is_object else ())
        values: Iterator[Any] = iter(found.values() if is_object else found)
        count = 16
        while items := tuple(islice(values, count)):
            names = tuple(islice(keys, count))
            begin = size = 0
            for at in (*_large(items, depth), len(items)):
                if begin < at:
                    piece = self._piece(names[begin:at], items[begin:at], is_object)
                    size += len(piece.data)
                    yield piece
                if at < len(items):
                    yield from self._opened(names[at : at + 1], items[at], depth)
                begin = at + 1
            count = max(1, min(PIECE_ITEMS, 2 * count, count * PIECE_BYTES // max(1, size)))

    def _opened(self, names: tuple[Any, ...], found: Any, depth: int) -> Iterator[Piece]:
        if not all(type(name) is str for name in names):
            raise changed(self._owner)
        before = b"".join(as_json(name) + b":" for name in names)
        is_object = type(found) in _OBJECTS
        yield Piece(Kind.OPEN, before + (b"{" if is_object else b"["))
        yield from self.items_of(found, depth + 1)
        yield Piece(Kind.CLOSE, b"}" if is_object else b"]")

    def _piece(self, names: tuple[Any, ...], items: tuple[Any, ...], is_object: bool) -> Piece:
        try:
            if is_object:
                return Piece(Kind.PAIRS, marshal.dumps((names, items), _PLAIN))
            return Piece(Kind.ITEMS, marshal.dumps(items, _PLAIN))
        except ValueError:  # a value of another type, or one that is nested very deeply
            found = dict(zip(names, items, strict=True)) if is_object else list(items)
            return Piece(Kind.JSON, _json_of(found, self._owner)[1:-1])


def _large(items: tuple[Any, ...], depth: int) -> Sequence[int]:
    """The places of items that are taken in pieces themselves."""
    if _CONTAINERS.isdisjoint(map(type, items)):
        return ()
    return [at for at, item in enumerate(items) if _is_large(item, depth)]


def _is_large(item: Any, depth: int) -> bool:
    if type(item) not in _CONTAINERS:
        return False
    if len(item) > LARGE:
        return True
    within = item if type(item) is list else item.values()
    return depth == 0 and not _CONTAINERS.isdisjoint(map(type, within))


def lines_of(pieces: Iterable[Piece], owner: str) -> Iterator[bytes]:
    """A state in lines, each behind the end of the one before. Raises as `pieces_of`."""
    yield b"{"
    before = b"\n"
    for kind, data in pieces:
        if kind is Kind.OPEN:
            yield before + data
            before = b"\n"
        elif kind is Kind.CLOSE:
            yield b"\n" + data
            before = b",\n"
        else:
            for line in (data,) if kind is Kind.JSON else _lines(kind, data, owner):
                yield before + line
                before = b",\n"
    yield b"\n}"


def _lines(kind: Kind, data: bytes, owner: str) -> Iterator[bytes]:
    found = marshal.loads(data)
    names, items = found if kind is Kind.PAIRS else ((), found)
    for begin in range(0, len(items), LINE_ITEMS):
        some, values = names[begin : begin + LINE_ITEMS], items[begin : begin + LINE_ITEMS]
        is_exact = _EXACT.issuperset(map(type, values)) and {str}.issuperset(map(type, some))
        plain = dict(zip(some, values, strict=True)) if kind is Kind.PAIRS else list(values)
        yield (as_json(plain) if is_exact else _json_of(plain, owner))[1:-1]


def _json_of(found: Any, owner: str) -> bytes:
    text = as_json(found)
    if of_json(text) != found:
        raise changed(owner)
    return text


def changed(owner: str) -> LogUsageError:
    """The error of values that are others when they are read again."""
    return LogUsageError(
        f"attributes of {owner} change when they become JSON (a tuple, a key that is no text); "
        "keep JSON values, or write `snapshot` and `restore`"
    )


Kinds = Mapping[str, Callable[[], dict[str, Any]]]
"""Of attributes that are a `defaultdict` or another one of `collections`: makes an empty one."""


def kinds_of(attributes: Mapping[str, Any]) -> Kinds:
    """The kinds of the attributes of an object as its class makes it."""
    found: dict[str, Callable[[], dict[str, Any]]] = {}
    for name, value in attributes.items():
        if type(value) is defaultdict:
            found[name] = partial(defaultdict, value.default_factory)
        elif type(value) in _OBJECTS and type(value) is not dict:
            found[name] = type(value)
    return found


def attributes_of(file: BinaryIO, kinds: Kinds = MappingProxyType({})) -> dict[str, Any]:
    """The attributes that `lines_of` or `as_json` wrote, those in `kinds` as such.

    Raises ValueError.
    """
    first = file.readline()
    found = _read(file, kinds) if first == b"{\n" else of_json(first + file.read())
    for name, empty in kinds.items():
        if type(found.get(name)) is dict:
            _put(again := empty(), found[name])
            found[name] = again
    return cast("dict[str, Any]", found)


def _read(file: BinaryIO, kinds: Kinds) -> dict[str, Any]:
    found: dict[str, Any] = {}
    opened: list[Any] = [found]
    for line in file:
        if line[:1] in b"}]":
            opened.pop()
            if not opened:
                return found
            continue
        items, top = line.rstrip(b",\n"), opened[-1]
        if items[-1:] in b"{[":
            inner: Any = {} if items.endswith(b"{") else []
            if type(top) is list:
                top.append(inner)
            else:
                name = of_json(items[:-2])
                if top is found and name in kinds and type(inner) is dict:
                    inner = kinds[name]()
                top[name] = inner
            opened.append(inner)
        elif type(top) is list:
            top.extend(of_json(b"[%b]" % items))
        else:
            _put(top, of_json(b"{%b}" % items))
    raise ValueError("the state has no end")


def _put(into: dict[str, Any], items: dict[str, Any]) -> None:
    """Put items into it as they are: the `update` of a Counter adds numbers."""
    if type(into) is Counter:
        dict.update(into, items)
    else:
        into.update(items)
