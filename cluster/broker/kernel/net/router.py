"""Every request of every connection: checked, then served here, passed on or held a moment.

enters     ─► who asks, the request read once, what it needs (requests.py); not again after that

leads      ─► here
follows    ─► found messages and registrations here, all else to the leader (one hop)
nobody     ─► held up to leader_wait_seconds, then code 14
stops      ─► the first request of a connection that is `leaving`: code 1500, the others as before
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cluster.broker.config import BrokerConfig
from cluster.broker.kernel.events.leadership import Leadership, Retry, Serving
from cluster.broker.kernel.net.accounts_known import AccountsKnown
from cluster.broker.kernel.net.announcements import Announcements
from cluster.broker.kernel.net.callers import Callers
from cluster.broker.kernel.net.client_calls import ClientCalls
from cluster.broker.kernel.net.connection import ClientConnection, costs_connection
from cluster.broker.kernel.net.doubts import RELAY_WAIT_SECONDS, Doubts
from cluster.broker.kernel.net.forward_links import ForwardLinks
from cluster.broker.kernel.net.greeting import greet
from cluster.broker.kernel.net.hot_paths import Pulls, Sends
from cluster.broker.kernel.net.needs import needs_of_pull, needs_of_send
from cluster.broker.kernel.net.refusals import to_service_error
from cluster.broker.kernel.net.relayed import RelayPulls, answered_here
from cluster.broker.kernel.net.relayed_sends import RelayedSends
from cluster.broker.kernel.net.requests import PULL_CODES, BoundHandler, Call, Who, fields, table
from cluster.broker.kernel.net.routed_pulls import RoutedPulls
from cluster.broker.kernel.read.current import CurrentReads
from cluster.core.access.needs import Needs
from cluster.errors import (
    ClusterError,
    NotLeader,
    PlannedMove,
    RequestNotSupported,
    ServiceNotAvailable,
    Unauthorized,
)
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import Frame
from cluster.protocol.headers import PullRequest, UnregisterClientRequest
from cluster.protocol.heartbeat import HeartbeatData
from cluster.protocol.raw_sends import RawSend
from cluster.protocol.replica_headers import name_leader
from cluster.protocol.send import SEND_CODES, SendReader, SendRequest, to_frame
from cluster.security.access_file import Access
from dledger.errors import DledgerError
from dledger.runtime.owned import Owned


class Router:
    """See the module's text."""

    def __init__(
        self,
        config: BrokerConfig,
        links: ForwardLinks,
        leadership: Leadership,
        reads: CurrentReads,
        calls: ClientCalls,
        owned: Owned,
        *,
        leader_address: Callable[[], str | None],
        access: Access,
        refuse_sends: Callable[[], ClusterError | None],
    ) -> None:
        """`refuse_sends` says why producers are refused now, or None."""
        self._config, self._links, self._leadership = config, links, leadership
        self._reads, self._calls, self.owned = reads, calls, owned
        self._leader_address, self.access = leader_address, access
        self.handlers: dict[int, BoundHandler[Any]] = {}
        self._refuse_sends = refuse_sends
        self._callers = Callers(access, lambda: self._produce.taken, lambda c: self.handlers.get(c))
        self._accounts_known = AccountsKnown(reads, leadership, access, owned)
        self._doubts = Doubts(
            self,
            leadership,
            access,
            self._callers,
            forward=self._forward,
            refuse_sends=self._refuses,
        )
        self.relayed = RelayedSends(
            links, leadership, sends=self.sends, again=self.again, stops=lambda: bool(self.leaving)
        )
        self.announcements = Announcements(links, leadership, self.again)
        self.requests, self.denied = 0, list[Callable[[Call, Unauthorized], None]]()
        #: Connections of clients that are still to be told to connect again; see node.py.
        self.leaving: set[ClientConnection] = set()

    def add(self, handlers: Mapping[int, BoundHandler[Any]]) -> None:
        """The requests of one feature. Raises HandlerRefused for a code that has a handler."""
        self.handlers = table(self.handlers, handlers)

    def add_hot_paths(self, sends: Sends, pulls: Pulls, relay_pulls: RelayPulls) -> None:
        """Sends and pulls, which are called without the table. Raises HandlerRefused."""
        self._produce, self._relay_pulls = sends, relay_pulls
        self._doubts.sends = sends
        routed = RoutedPulls(
            pulls,
            self._leadership,
            self.access,
            self._accounts_known,
            self._at_leader,
            commit=lambda *of: self.handlers[RequestCode.UPDATE_CONSUMER_OFFSET].function(*of),
        )
        pull = BoundHandler(Who.ANYWHERE, fields(PullRequest), needs_of_pull, routed.take)
        send = BoundHandler(Who.ANYWHERE, SendReader().read, needs_of_send, self._send)
        self.add(dict.fromkeys(PULL_CODES, pull))
        self.add(dict.fromkeys(SEND_CODES, send))

    def when_current(self, then: Callable[[DledgerError | None], None]) -> None:
        """See `CurrentReads`."""
        self._reads.when_current(then)

    def to_error(self, error: Exception) -> ClusterError:
        """The error as clients are told it."""
        return to_service_error(error, self._leader_address())

    @property
    def refused_sends(self) -> int:
        """Number of sends that were refused on all connections."""
        return self._produce.refused

    # -- sends -------------------------------------------------------------------------------------

    def sends(
        self,
        connection: ClientConnection,
        requests: Sequence[SendRequest],
        expired: bool = False,
    ) -> None:
        """The sends of one socket read, or such as are asked again."""
        costs_connection(self.owned, connection, lambda: self._sends(connection, requests, expired))

    def _sends(
        self, connection: ClientConnection, requests: Sequence[SendRequest], expired: bool
    ) -> None:
        if self._callers.is_too_late(connection):
            return
        if self.leaving and (told := self._goes_away(connection)):
            self._refuse_all(connection, requests, told)
            return
        ordered = expired or not self._leadership.is_releasing
        if ordered and self._leadership.leads:
            refused = self._refuses(connection)
            if refused is None:
                self._produce.handle(connection, requests)
            else:
                self._refuse_all(connection, requests, refused)
            return
        if ordered and self._leadership.serving is Serving.FOLLOWING:
            self._forward_sends(connection, requests)
            return
        if expired or not self._hold(
            connection,
            lambda late: self.sends_that_waited(connection, requests, late),
            sum(len(request.body) + len(request.properties) for request in requests),
        ):
            self._refuse_all(connection, requests, self._nobody_leads())

    def takes_relayed(
        self, connection: ClientConnection, sends: Sequence[SendRequest | RawSend]
    ) -> None:
        """Sends that came to the relay port."""
        if not self._callers.is_too_late(connection):
            self.relayed.take(connection, sends)

    def _refuses(self, connection: ClientConnection) -> ClusterError | None:
        """Why no send is taken. A link is for one leadership only (in_doubt.py)."""
        if connection.link_term not in (None, self._leadership.term):
            return self.leads_not()
        return self._refuse_sends()

    def _hold(self, connection: ClientConnection, retry: Retry, size: int) -> bool:
        """See `Leadership.hold`. A relay has no other address to offer, so it is more patient."""
        patient = connection.is_relay or self._config.advertised_relay is not None
        seconds = RELAY_WAIT_SECONDS if patient else 0.0
        return self._leadership.hold_for(seconds, retry, size)

    def sends_again(self, connection: ClientConnection, requests: Sequence[SendRequest]) -> bool:
        """Sends that a leadership refused because it ends: hold them until another one began.

        False: too many wait already. When the handing over came to nothing they are served here."""

        def again(late: bool) -> None:
            if not connection.closed:
                self.sends_that_waited(connection, requests, late)

        size = sum(len(request.body) + len(request.properties) for request in requests)
        return self._leadership.hold(again, size)

    def sends_that_waited(
        self, connection: ClientConnection, requests: Sequence[SendRequest], late: bool = False
    ) -> None:
        """Sends that waited for a leader or for their topic, by the accounts that there are now."""
        if not self.access.is_on:
            self.sends(connection, requests, late)
            return
        for request in requests if not self._callers.is_too_late(connection) else ():
            if late and self._leadership.serving is Serving.WAITING:
                self._refuse_all(connection, [request], self._nobody_leads())
            else:
                self.request_again(connection, to_frame(request))

    def _forward_sends(self, connection: ClientConnection, requests: Sequence[SendRequest]) -> None:
        if connection.forwarded_by is not None:
            self._refuse_all(connection, requests, self.leads_not())
            return
        for request in requests:
            try:
                self._links.send(connection, to_frame(request), self._leadership.leader, self.again)
            except ClusterError as error:
                self._refuse_all(connection, [request], error)

    def _refuse_all(
        self,
        connection: ClientConnection,
        requests: Sequence[SendRequest],
        error: ClusterError,
    ) -> None:
        for request in requests:
            self._produce.refuse(connection, request, error)

    def _goes_away(self, connection: ClientConnection) -> ClusterError | None:
        """Refuse one request of each connection that should leave; its repeat is served."""
        if connection not in self.leaving:
            return None
        self.leaving.discard(connection)
        return PlannedMove("this node stops; connect again and ask again")

    def leads_not(self) -> ClusterError:
        """For a request that is not done here. It names the leader, where that is another node."""
        return NotLeader("", None if self._leadership.leads else self._leader_address())

    def _nobody_leads(self) -> ClusterError:
        return ServiceNotAvailable("no leader can be reached at the moment; try again shortly")

    # -- everything else ---------------------------------------------------------------------------

    def request(self, connection: ClientConnection, frame: Frame) -> None:
        """One request as it came, or a client's response to one of ours (or of the leader's)."""
        costs_connection(self.owned, connection, lambda: self._request(connection, frame))

    def _request(self, connection: ClientConnection, frame: Frame) -> None:
        if frame.is_response:
            self._client_answered(connection, frame)
            return
        self.requests += 1
        if frame.code == RequestCode.FORWARD_HELLO:
            greet(self._config, connection, frame)
            return
        if frame.code == RequestCode.SEND_IN_DOUBT:
            call = Call(self, connection, frame)
            call.guarded(lambda: self._doubts.passed_on(connection, frame))
            return
        try:
            call = Call(
                self,
                connection,
                frame,
                self._callers.caller(connection, frame, passed_on=self._passes_on(frame.code)),
            )
        except ClusterError as error:
            self._refuse(connection, frame, error)
            return
        if self.leaving and not frame.is_oneway and (told := self._goes_away(connection)):
            call.refuse(told)
            return
        call.guarded(lambda: self._serve(call))

    def request_again(self, connection: ClientConnection, frame: Frame) -> None:
        """A request that waited: its account's rights of now count, not those of when it came."""
        call, again = Call(self, connection, frame), self._callers.again
        call.guarded(lambda: self._serve(call._replace(caller=again(connection, frame))))

    def _passes_on(self, code: int) -> bool:
        """Will the leader look at such a request, too?"""
        found = self.handlers.get(code)
        leads_not = self._leadership.serving is Serving.FOLLOWING
        return leads_not and (code in SEND_CODES or (found is not None and found.who is Who.LEADER))

    def _serve(self, call: Call) -> None:
        """Check the request's needs, and execute it. Raises the error for the client."""
        frame, connection = call.frame, _connection(call)
        handler = self.handlers.get(frame.code)
        if handler is None:
            raise RequestNotSupported(
                f" request type {frame.code} not supported", self._config.name_servers
            )
        needs = handler.needs
        if isinstance(needs, Needs):
            call.require(needs)
        request = handler.read(frame)
        if not isinstance(needs, Needs):
            call.require(needs(request))
        if connection.is_relay and answered_here(call, request, self._relay_pulls):
            return
        if frame.code == RequestCode.TRANSFER_LEADER:
            frame = name_leader(frame, self._leadership.leader)
        if handler.who is Who.LEADER:
            named = call._replace(frame=frame)
            self._at_leader(named, lambda: handler.function(call, request))
            return
        self._accounts_known.check(frame.code)
        handler.function(call, request)
        if isinstance(request, HeartbeatData | UnregisterClientRequest):
            self.announcements.announce(connection, frame, request)

    def _send(self, call: Call, request: SendRequest) -> None:
        """A send that came as a frame; it is passed on so, and the leader sees its signature."""
        signed = call.frame if self.access.is_on else None
        send = request._replace(sender=call.caller.key, signed=signed)
        self._at_leader(call, lambda: self.sends(_connection(call), [send]))

    def _client_answered(self, connection: ClientConnection, frame: Frame) -> None:
        answered = self._calls.answered(connection, frame)
        if not answered and connection.forwarded_by is None:
            self._links.pass_answer(connection, frame)

    def _at_leader(self, call: Call, serve: Callable[[], None], expired: bool = False) -> None:
        """Run `serve` when this node leads; else pass the frame on, or hold it."""
        leadership = self._leadership
        ordered = expired or not leadership.is_releasing
        if ordered and leadership.leads:
            call.guarded(lambda: self._lead(call, serve))
        elif ordered and leadership.serving is Serving.FOLLOWING:
            call.guarded(lambda: self._forward(_connection(call), call.frame))
        elif expired or not leadership.hold(
            lambda late: self._at_leader_late(call, serve, late), len(call.frame.body)
        ):
            call.refuse(self._nobody_leads())

    def _at_leader_late(self, call: Call, serve: Callable[[], None], expired: bool) -> None:
        """As `_at_leader`, for a request that waited: with accounts it is judged anew (R29)."""
        if self.access.is_on and self._leadership.serving is not Serving.WAITING:
            self.request_again(_connection(call), call.frame)
        else:
            self._at_leader(call, serve, expired)

    def _lead(self, call: Call, serve: Callable[[], None]) -> None:
        """Serve a request that only a leader may serve. Raises SealStale, QueueFull."""
        self._callers.judged(call.caller, call.frame, self._leadership.leading_since, serve)

    def _forward(self, connection: ClientConnection, frame: Frame) -> None:
        if connection.forwarded_by is not None:
            raise self.leads_not()
        self._links.send(connection, frame, self._leadership.leader, self.again)

    def ask_again(self, connection: ClientConnection, frame: Frame) -> None:
        """Route the request again: the leadership that took it ended before executing it.

        A node that passed it on sends it again itself (forward.py). A request that any replica
        serves is refused: it would come back here, at once, for as long as there is no leader.
        """
        handler = self.handlers[frame.code]
        anywhere = handler.who is Who.ANYWHERE and frame.code not in PULL_CODES | SEND_CODES
        if anywhere or connection.forwarded_by is not None:
            self._refuse(connection, frame, self.leads_not())
        else:
            self.again(connection, [frame], not self._leadership.leads)

    def _refuse(self, connection: ClientConnection, frame: Frame, error: ClusterError) -> None:
        Call(self, connection, frame).refuse(error)

    def again(self, connection: ClientConnection, frames: Sequence[Frame], moved: bool) -> None:
        """Route requests again that a former leader or an ended link left unserved.

        When it just broke, that shows when the role changes; if it does not soon, they are refused.
        """
        if self._callers.is_too_late(connection):
            return
        frames = self._doubts.taken_from(connection, frames)

        def route(late: bool = False) -> None:
            if self._callers.is_too_late(connection):
                return
            for frame in frames if not connection.closed else ():
                if late:
                    self._refuse(connection, frame, self._nobody_leads())
                elif frame.code in SEND_CODES and not self.access.is_on:
                    self.sends(connection, [SendReader().read(frame)])
                else:
                    self.request_again(connection, frame)

        leadership = self._leadership
        if moved or leadership.serving is Serving.WAITING:
            owned = self.owned
            owned.call_later(0, costs_connection, owned, connection, route)
        elif not self._hold(connection, route, sum(len(frame.body) for frame in frames)):
            route(late=True)


def _connection(call: Call) -> ClientConnection:
    assert isinstance(call.client, ClientConnection), "requests come on connections"
    return call.client
