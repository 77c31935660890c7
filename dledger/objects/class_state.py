"""Where the state of a `@replicated` class is, and which of its methods write and read it.

attributes in `__dict__`     taken and restored by this package
snapshot and restore         do it instead, where the class has both
slots, items of a `dict`     only by these two: else a restart would lose them, so it is refused
a list of the class itself   for constants: one that has changed is in no state, so none is taken
"""

from __future__ import annotations

import inspect
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Sized
from types import BuiltinFunctionType
from typing import Any, cast

from dledger.errors import LogUsageError
from dledger.machine.state_machine import called_at_once
from dledger.objects.replicated_object import as_json

_CONTAINERS = frozenset({dict, list, defaultdict, Counter, OrderedDict})
#: Items of a container that is too large to be compared.
_LARGE = 4096
#: The plain methods for the state of a class, with what they are called with.
_METHODS: dict[str, tuple[object, ...]] = {"snapshot": (), "restore": (b"",), "checksum": ()}


def plain_method(plain: type, name: str) -> Callable[..., Any] | None:
    """The method of this name; a command, a query or an attribute of that name is another thing."""
    found: Callable[..., Any] | None = getattr(plain, name, None)
    return found if callable(found) else None


def check_state(plain: type) -> None:
    """Raises LogUsageError for a class of which a state would lack something, or not be read."""
    name = plain.__name__
    has = {method: plain_method(plain, method) for method in _METHODS}
    for one, other in ("snapshot", "restore"), ("restore", "snapshot"):
        if has[one] is not None and has[other] is None:
            raise LogUsageError(
                f"{name} has {one} and no {other}, so no node could start again from its state; "
                f"write {other}, too, or name {one} otherwise where it is for something else"
            )
    for method, arguments in _METHODS.items():
        _check_call(plain, method, has[method], arguments)
    slots = sorted(_slots(plain))
    if not plain.__dictoffset__ or (slots and has["snapshot"] is None):
        raise LogUsageError(
            f"{name} has slots{''.join(f' {slot},' for slot in slots)} which are no part of its "
            "state; leave `__slots__` out"
        )
    base = _built_in(plain)
    if base is not None and has["snapshot"] is None:
        raise LogUsageError(
            f"{name} is a {base.__name__}, and its items are no part of its attributes; keep a "
            f"{base.__name__} in an attribute, or write `snapshot` and `restore`"
        )


def containers_of(plain: type) -> dict[str, bytes]:
    """The lists and dictionaries of the class itself, as JSON; all of its objects share them.

    Large ones are left out, since a state begins small, and those that JSON does not have.
    """
    values = {name: found for base in plain.__mro__[::-1] for name, found in vars(base).items()}
    found = {name: _text(value) for name, value in values.items() if not name.startswith("__")}
    return {name: text for name, text in found.items() if text}


def check_containers(plain: type, before: dict[str, bytes]) -> None:
    """Raises LogUsageError if a container of the class itself has changed since `containers_of`."""
    for name, text in before.items():
        if _text(getattr(plain, name, None)) != text:
            raise LogUsageError(
                f"{name} is of the class {plain.__name__}, so it is no part of an object's state, "
                f"and it was changed; make it in `__init__`: self.{name} = …"
            )


def _text(value: object) -> bytes:
    if type(value) not in _CONTAINERS or len(cast("Sized", value)) > _LARGE:
        return b""
    try:
        return as_json(value)
    except (TypeError, ValueError, RecursionError):
        return b""


def _check_call(
    plain: type, name: str, method: Callable[..., Any] | None, arguments: tuple[object, ...]
) -> None:
    if method is None:
        return
    called_at_once(method, may_yield=name == "snapshot")
    count = f"{len(arguments)} argument" if arguments else "no arguments"
    try:
        inspect.signature(method).bind(plain, *arguments)
    except TypeError as error:
        raise LogUsageError(
            f"{plain.__name__}.{name} is called with {count}, and cannot be ({error}); name it "
            "otherwise where it is not for the state"
        ) from error


def _slots(plain: type) -> set[str]:
    """Names of attributes that are not in `__dict__`."""
    return {
        name
        for base in plain.__mro__
        for name, found in vars(base).items()
        if inspect.ismemberdescriptor(found)
    }


def _built_in(plain: type) -> type | None:
    """The base that holds something besides attributes: a list, a dict, a deque, a number."""
    for base in plain.__mro__:
        new = base.__new__
        if base is not object and type(new) is BuiltinFunctionType and new.__self__ is base:
            return base
    return None
