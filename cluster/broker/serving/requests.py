"""Request code → who may answer it, and the function that does.

    ANYWHERE   any replica, from what it has itself
    LEADER     the leader; a follower passes it on, and while nobody leads it waits a moment

A function returns the answer, or None when it answers later by itself (`Call.answer`); what it
raises is told to the client. Sends and pulls have paths of their own (send.py, pull.py).
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from cluster.broker.services import Services
from cluster.errors import ClusterError, RequestNotSupported
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import EMPTY, Frame, refusal, response
from commitlog.errors import StoreError
from dledger.errors import DledgerError, NotLeader

_log = logging.getLogger(__name__)


class Who(enum.Enum):
    ANYWHERE = "anywhere"
    LEADER = "leader"


class Client(Protocol):
    """The connection a request came on."""

    address: str
    closed: bool
    version: int
    forwarded_by: str | None

    @property
    def is_paused(self) -> bool: ...

    def answer(self, frame: Frame) -> None: ...

    def write(self, data: bytes) -> None: ...


class Call(NamedTuple):
    """One request being served."""

    services: Services
    client: Client
    frame: Frame

    def answer(
        self,
        code: int = 0,
        ext: Mapping[str, str] = EMPTY,
        body: bytes = b"",
        remark: str | None = None,
    ) -> None:
        """Answer, unless the request was oneway or the client has gone."""
        if not self.frame.is_oneway and not self.client.closed:
            self.client.answer(response(self.frame, code, ext, body, remark))

    def refuse(self, error: Exception) -> None:
        """Tell the client about an error."""
        if not self.frame.is_oneway and not self.client.closed:
            self.client.answer(refusal(self.frame, self.services.to_error(error)))

    def when_current(self, then: Callable[[], None]) -> None:
        """Go on when this replica proved that it leads and has applied everything (ReadIndex)."""

        def ready(error: DledgerError | None) -> None:
            if isinstance(error, NotLeader):
                self.services.ask_again(self.client, self.frame)
            elif error is not None:
                self.refuse(error)
            else:
                self.guarded(then)

        self.services.when_current(ready)

    def guarded(self, step: Callable[[], None]) -> None:
        """Run a later step of this request; what it raises is told to the client."""
        try:
            step()
        except (ClusterError, DledgerError, StoreError, OSError) as error:
            self.refuse(error)
        except Exception as error:  # a mistake in one request must not take the broker down
            _log.exception("request %d of %s failed", self.frame.code, self.client.address)
            self.refuse(error)

    def done(self, error: Exception | None) -> None:
        """As a callback: success without fields, or the error."""
        if error is None:
            self.answer()
        else:
            self.refuse(error)


Function = Callable[[Call], None]


class Route(NamedTuple):
    who: Who
    function: Function


def not_supported(call: Call) -> None:
    raise RequestNotSupported(f" request type {call.frame.code} not supported")


def table(*parts: Mapping[int, Route]) -> dict[int, Route]:
    """One table of all parts. No code is in two of them."""
    routes: dict[int, Route] = {}
    for part in parts:
        assert not routes.keys() & part.keys(), "one request code has one function"
        routes.update(part)
    return routes


PULL_CODES = frozenset({RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE})
