"""Large containers that are given up go in slices, so that no thread waits long for their end.

    the last reference to a million keys goes ─► Python frees them all, and every thread waits
    let_go ─► a thread takes 256 items out at a time, and rests behind each ms of that

Only what nothing else refers to is taken apart: another holder sees no change. Items that are
lists, dictionaries or sets are taken apart, too; what else there is goes with its container.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from itertools import islice
from typing import Any

from dledger.snapshots.rests import Rests

#: Items of one slice; of a container among them that goes with it; and of all containers that are
#: freed without a thread. Each is a part of a ms.
SLICE, SMALL, AT_ONCE = 256, 16, 4096
_KINDS = frozenset({dict, list, set})


def let_go(held: list[Any], *, at_once: int = AT_ONCE) -> None:
    """Free the dictionaries, lists and sets in this list, which it empties.

    The caller has no other reference to them: the name of a local variable is one. `at_once`: up to
    so many items are freed before this returns, more of them in a thread.
    """
    sole = [at for at, one in enumerate(held) if type(one) in _KINDS]
    sole = [at for at in sole if _is_sole(held, at)]
    if sum(len(held[at]) for at in sole) > at_once:
        found = [held[at] for at in sole]
        held.clear()
        thread = threading.Thread(
            target=free, args=(found, Rests()), name="dledger-let-go", daemon=True
        )
        del found
        with contextlib.suppress(RuntimeError):  # no thread is to be had: all goes here, at once
            thread.start()
    held.clear()


def free(held: list[Any], rests: Rests) -> None:
    """Take the containers in this list apart, the last one first, in this thread."""
    rests.begin()
    while held:
        if held[-1] and _is_sole(held, -1):
            held += _slice_of(held[-1])
        else:
            held.pop()
        rests.between()


def _slice_of(container: Any) -> list[Any]:
    """Take some items out of it; those that are to be taken apart themselves."""
    if type(container) is list:
        items = container[-SLICE:]
        del container[-SLICE:]
    elif type(container) is dict:
        items = [container.popitem()[1] for _ in range(min(SLICE, len(container)))]
    else:
        items = list(islice(container, SLICE))
        container.difference_update(items)
    if _KINDS.isdisjoint(map(type, items)):
        return []
    return [item for item in items if type(item) in _KINDS and not _is_small(item)]


def _is_small(container: Any) -> bool:
    """True if it is freed in one go: few items, and no containers among them."""
    if len(container) > SMALL:
        return False
    items = container.values() if type(container) is dict else container
    return _KINDS.isdisjoint(map(type, items))


def _references(held: list[Any], at: int) -> int:
    return sys.getrefcount(held[at])


#: What `_references` counts where the list alone refers to an item: releases of Python differ.
_SOLE = _references([{}], 0)


def _is_sole(held: list[Any], at: int) -> bool:
    """True if this list is the only one that refers to the item."""
    return _references(held, at) == _SOLE
