"""Request code → the nodes that may answer it, the rights that its sender needs, and its function.

    frame ─► read ─► request ─┬► needs(request)            checked where the frame entered
                              └► function(call, request)   the very value that was checked

    ANYWHERE   any replica, from what it has itself
    LEADER     the leader; a follower passes it on, and while nobody leads it waits a moment

A frame is read once, so that a check and the action cannot see different values: functions never
look into the frame's fields and body. A handler without a rule cannot be made (`table`), and a code
without a handler is refused. A function answers by itself (`Call.answer`), now or later; what it
raises is told to the client. What is known only after a look at the log is asked for then, with
`Call.require`.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from cluster.core.access.needs import Needs
from cluster.core.access.rules import NOBODY, Caller
from cluster.errors import ClusterError, Unauthorized
from cluster.protocol.codes import RequestCode
from cluster.protocol.fields import decode
from cluster.protocol.frames import EMPTY, Frame, refusal, response
from cluster.security.access_file import Access, require
from commitlog.errors import StoreError
from dledger.errors import DledgerError, NotLeader
from dledger.runtime.owned import Owned


class Who(enum.Enum):
    """The nodes that may answer a request; see the module's text."""

    ANYWHERE = "anywhere"
    LEADER = "leader"


class Client(Protocol):
    """The connection a request came on."""

    address: str
    closed: bool
    version: int
    forwarded_by: str | None

    @property
    def is_paused(self) -> bool:
        """True while the client does not read its answers."""
        ...

    def answer(self, frame: Frame) -> None:
        """Send a frame."""
        ...

    def write(self, data: bytes) -> None:
        """Send bytes of whole frames."""
        ...

    def close(self) -> None:
        """End the connection, after the answers that are buffered."""
        ...


class Routing(Protocol):
    """The router, as far as a request needs it while it is served."""

    owned: Owned
    access: Access

    def to_error(self, error: Exception) -> ClusterError:
        """The error as clients are told it."""
        ...

    def when_current(self, then: Callable[[DledgerError | None], None]) -> None:
        """Call `then` when this replica shows everything that was acknowledged before now."""
        ...

    #: Told of each request that was refused for its account, signature or rights.
    denied: list[Callable[[Call, Unauthorized], None]]

    def ask_again(self, connection: Any, frame: Frame) -> None:
        """Ask the next leader: a leadership ended before it served the request."""
        ...

    def request_again(self, connection: Any, frame: Frame) -> None:
        """Serve a request that waited, by the rights that its account has now."""
        ...


class Call(NamedTuple):
    """One request being served."""

    router: Routing
    client: Client
    frame: Frame
    caller: Caller = NOBODY

    def require(self, needs: Needs) -> None:
        """Check a need that the request turned out to have. Raises Unauthorized."""
        require(self.caller, needs)

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
        if isinstance(error, Unauthorized):
            for told in self.router.denied:
                told(self, error)
        self.answer_error(error)

    def answer_error(self, error: Exception) -> None:
        """The answer of `refuse`."""
        if not self.frame.is_oneway and not self.client.closed:
            self.client.answer(refusal(self.frame, self.router.to_error(error)))

    def when_current(self, then: Callable[[], None]) -> None:
        """Go on when this replica proved that it leads and has applied everything (ReadIndex).

        When accounts changed meanwhile, the request is judged and served anew (R29).
        """
        changes = self.router.access.changes

        def ready(error: DledgerError | None) -> None:
            if isinstance(error, NotLeader):
                self.router.ask_again(self.client, self.frame)
            elif self.router.access.changes != changes:
                self.router.request_again(self.client, self.frame)
            elif error is not None:
                self.refuse(error)
            else:
                self.guarded(then)

        self.router.when_current(ready)

    def guarded(self, step: Callable[[], object]) -> None:
        """Run a step of this request; its errors are answered to the client.

        A mistake costs the connection, and nothing else: what it has begun is not known.
        """
        owned = self.router.owned
        try:
            owned.on_behalf(self.guarded, step)
        except (ClusterError, DledgerError, StoreError, OSError) as error:
            self.refuse(error)
        except Exception as error:
            owned.spared("request %d of %s failed", self.frame.code, self.client.address)
            self.refuse(error)
            self.client.close()

    def later(self, seconds: float, step: Callable[[], object]) -> None:
        """Run a step of this request in so many seconds."""
        self.router.owned.call_later(seconds, self.guarded, step)

    def begun(self, step: Callable[[], object]) -> None:
        """Run a step that is no record of the log, behind the request's audit entry.

        A call that is not audited has none.
        """
        self.guarded(step)

    def begun_anyway(self, step: Callable[[], object]) -> None:
        """As `begun`, at once, and also where the log takes no entry: on a full disk, say."""
        self.guarded(step)

    def done(self, error: Exception | None) -> None:
        """As a callback: success without fields, or the error."""
        if error is None:
            self.answer()
        else:
            self.refuse(error)


R = TypeVar("R")


class BoundHandler(NamedTuple, Generic[R]):
    """`read` raises InvalidRequest. Needs that do not depend on the request are looked at first."""

    who: Who
    read: Callable[[Frame], R]
    needs: Callable[[R], Needs] | Needs
    function: Callable[[Call, R], None]


P = TypeVar("P")


class Handler(NamedTuple, Generic[P, R]):
    """A handler of a feature; its function takes the feature's ports first. See `BoundHandler`."""

    who: Who
    read: Callable[[Frame], R]
    needs: Callable[[R], Needs] | Needs
    function: Callable[[P, Call, R], None]


def bind(ports: P, *parts: Mapping[int, Handler[P, Any]]) -> dict[int, BoundHandler[Any]]:
    """The handlers of one feature. Raises HandlerRefused."""

    def bound(handler: Handler[P, Any]) -> BoundHandler[Any]:
        function = functools.partial(handler.function, ports)
        return BoundHandler(handler.who, handler.read, handler.needs, function)

    return table(*({code: bound(handler) for code, handler in part.items()} for part in parts))


class HandlerRefused(Exception):
    """A code has two handlers, or one lacks its rule; the broker does not start."""


def fields(kind: type[R]) -> Callable[[Frame], R]:
    """Reads a request of which everything is in the header's fields."""

    def read(frame: Frame) -> R:
        return decode(kind, frame.ext)

    return read


def nothing(frame: Frame) -> None:
    """Reader of a request that has no content beside its code."""


def table(*parts: Mapping[int, BoundHandler[Any]]) -> dict[int, BoundHandler[Any]]:
    """One table of all parts. Raises HandlerRefused."""
    handlers: dict[int, BoundHandler[Any]] = {}
    for part in parts:
        for code, handler in part.items():
            if code in handlers:
                raise HandlerRefused(f"request code {code} has two functions; it can have one")
            ruled = isinstance(handler.needs, Needs) or callable(handler.needs)
            if not (ruled and callable(handler.read) and callable(handler.function)):
                raise HandlerRefused(
                    f"request code {code} has no reader, no rule or no function; say with `needs` "
                    "what its sender must be allowed"
                )
            handlers[code] = handler
    return handlers


PULL_CODES = frozenset({RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE})
