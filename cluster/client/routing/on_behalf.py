"""The user of a program's requests, as brokers' audit logs keep it.

with on_behalf("console", "admin token"):      of this task, and of those that it starts
    await admin.create_topic("orders")         ─► the request has two fields more
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar

from cluster.protocol.audit_headers import BY, VIA

_FIELDS: ContextVar[Mapping[str, str] | None] = ContextVar("on_behalf", default=None)


@contextlib.contextmanager
def on_behalf(via: str, by: str) -> Iterator[None]:
    """Requests to leaders made within say that a tool (`via`) asks for a user (`by`)."""
    before = _FIELDS.set({VIA: via, BY: by})
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # left by another task, which never had it
            _FIELDS.reset(before)


def told(ext: Mapping[str, str]) -> Mapping[str, str]:
    """A request's fields, with those that say it."""
    said = _FIELDS.get()
    return ext if said is None else {**ext, **said}
