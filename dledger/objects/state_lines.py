"""States as JSON in lines, so that a large one is written and read line by line. Pure.

    {                             [3,1,[
    "a":1,"b":2,                  ["k1",…],["k2",…],
    "c":3                         ["k3",…]
    }                             ],[
                                  …
                                  ]]

Text in JSON has no end of a line in it, so a line is one wherever its end stands. Releases that
write all of a state in one line read these as well, and what they wrote is read as a whole.

How many items share a line follows from the items alone: equal states have equal bytes. One line is
made or read without a pause of the interpreter, so it is short: what other threads wait for.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, BinaryIO, TypeVar

from dledger.machine.state_machine import ReplicatedStateMachine
from dledger.objects.frozen import View
from dledger.objects.replicated_object import as_json, of_json

C = TypeVar("C")
R = TypeVar("R")
T = TypeVar("T")

#: Items of one line, and bytes that it should have: more where single items have more.
LINE_ITEMS, LINE_BYTES = 256, 32 << 10


class InLines(ReplicatedStateMachine[C, R]):
    """A machine that overrides `restore_from`."""

    def restore(self, state: bytes) -> Any:
        """As `restore_from`."""
        return self.restore_from(io.BytesIO(state))


def lines(
    take: Callable[[int], Sequence[T]], whole: Callable[[Sequence[T]], Any]
) -> Iterator[bytes]:
    """Lines of the items that `take(count)` gives until there are no more, ends in front.

    `whole`: a list or an object of items; its brackets are left out.
    """
    count, before = 16, b"\n"
    while items := take(count):
        line = as_json(whole(items))[1:-1]
        yield before + line
        before = b",\n"
        fit = count * LINE_BYTES // max(1, len(line))
        count = max(1, min(LINE_ITEMS, 2 * count, fit))
    yield b"\n"


def of_list(items: Sequence[T]) -> Callable[[int], Sequence[T]]:
    """For `lines`: the items of a list that does not change."""
    at = 0

    def take(count: int) -> Sequence[T]:
        nonlocal at
        at += count
        return items[at - count : at]

    return take


def dict_parts(view: View[str, Any]) -> Callable[[], Iterator[bytes]]:
    """The result of a snapshot: an object of the view's pairs, in lines."""

    def parts() -> Iterator[bytes]:
        with closing(view):
            yield b"{"
            yield from lines(view.take, dict)
            yield b"}"

    return parts


def dicts_of(file: BinaryIO) -> Iterator[dict[str, Any]]:
    """The object that `dict_parts` or `as_json` wrote, in pieces. Raises ValueError."""
    first = file.readline()
    if first != b"{\n":
        yield of_json(first + file.read())
        return
    for line in file:
        if line == b"}":
            return
        yield of_json(b"{%b}" % line.rstrip(b",\n"))
    raise ValueError("the state has no end")


def lists_of(file: BinaryIO) -> Iterator[list[Any]]:
    """The items of one list, in pieces, up to the line that ends it. Raises ValueError."""
    for line in file:
        if line.startswith(b"]"):
            return
        yield of_json(b"[%b]" % line.rstrip(b",\n"))
    raise ValueError("the state has no end")
