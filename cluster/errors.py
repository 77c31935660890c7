"""Every failure of the service says two things: may I retry, and is it certain it did not happen.

    ClusterError                       retriable  outcome   code
    ├─ NotDone            certainly not happened
    │  ├─ NotLeader                    yes        NOT_DONE  31901  (leader: where to go, or None)
    │  ├─ ServiceNotAvailable          yes        NOT_DONE  14     no quorum, stopping, disk full
    │  │  └─ PlannedMove               yes        NOT_DONE  1500   leads or serves elsewhere soon
    │  ├─ QueueFull                    yes        NOT_DONE  2      back-pressure
    │  ├─ SealStale                    yes        NOT_DONE  31906  sealed at another time; stamp_ms
    │  ├─ SequenceGap                  yes        NOT_DONE  31903  an earlier message is missing
    │  ├─ FlowControlled               yes        NOT_DONE  215
    │  ├─ SubscriptionMissing          yes        NOT_DONE  24     pull before heartbeat
    │  ├─ SubscriptionOutdated         yes        NOT_DONE  25
    │  ├─ TopicNotFound                no         NOT_DONE  17
    │  ├─ TopicExists                  no         NOT_DONE  18
    │  ├─ MessageTooLarge              no         NOT_DONE  13
    │  ├─ Unauthorized                 no         NOT_DONE  16
    │  ├─ InvalidRequest               no         NOT_DONE  29
    │  ├─ NumberUsed                   no         NOT_DONE  31907  by another message (R8)
    │  ├─ RequestNotSupported          no         NOT_DONE  3
    │  ├─ NotFound                     no         NOT_DONE  22     no offset, key or message
    │  ├─ SubscriptionInvalid          no         NOT_DONE  23
    │  ├─ GroupNotFound                no         NOT_DONE  26
    │  ├─ ConsumerOffline              no         NOT_DONE  206
    │  ├─ IllegalOperation             no         NOT_DONE  604
    │  ├─ NotConnected                 yes        NOT_DONE  -      nobody could be reached
    │  ├─ NotTrusted                   no         NOT_DONE  -      its certificate is not believed
    │  └─ ClientClosed                 no         NOT_DONE  -      used after close
    ├─ OutcomeUnknown                  yes        UNKNOWN   31902  may have happened
    │  ├─ ServerError                  yes        UNKNOWN   1
    │  ├─ SendTimeout                  yes        UNKNOWN   -
    │  ├─ ReplyTimeout                 yes        UNKNOWN   -      nobody replied to a request
    │  ├─ ConnectionLost               yes        UNKNOWN   -
    │  ├─ LeaderLostWhileWaiting       yes        UNKNOWN   31904
    │  ├─ ProducerForgotten            no         UNKNOWN   31905  its de-duplication state expired
    │  └─ UnknownResponseCode          no         UNKNOWN   any other
    └─ ProtocolError
       ├─ LocalProtocolError           no         NOT_DONE  -      our mistake: cannot be encoded
       └─ RemoteProtocolError          no         UNKNOWN   -      theirs: not a frame, over a limit

Codes are those of docs/spec/remoting.md 3; 319xx are our own (`cluster/protocol/codes.py`).
Every text says what happened and one thing to try (`commitlog/advice.py`).
In doubt the answer is UNKNOWN. `invalid_route` says that the route must be asked for again first.
"""

from __future__ import annotations

import enum
import re

from commitlog.advice import Advised

_COMES_NEXT = re.compile(r"and (\d+) comes next")


class Outcome(enum.Enum):
    """Is it certain that it did not happen?"""

    NOT_DONE = "not done"
    UNKNOWN = "unknown"


class ClusterError(Advised):
    """Base of every error of this package."""

    retriable = False
    outcome = Outcome.NOT_DONE
    invalid_route = False


class NotDone(ClusterError):
    """Certain: it did not happen and will not."""

    advice = "try again"


class NotLeader(NotDone):
    """The node asked does not lead; `leader` is the address to ask, or None without a leader."""

    retriable = True
    invalid_route = True

    def __init__(self, message: str = "", leader: str | None = None) -> None:
        self.leader = leader
        super().__init__(
            message
            or (
                f"this node does not lead the group; ask {leader}"
                if leader
                else "the group has no leader at the moment; try again shortly"
            )
        )


class ServiceNotAvailable(NotDone):
    """The node cannot serve now: no quorum, stopping, or its disk is full."""

    advice = "try again shortly"
    retriable = True
    invalid_route = True


class PlannedMove(ServiceNotAvailable):
    """The node stops, or hands its lead over: connect again, then ask again."""


QUOTA_WORDS = "are its quota"
"""End of the sentence of a request that an account's quota refused."""


class QueueFull(NotDone):
    """More is waiting than the limit allows; try again after a pause."""

    advice = "pause, then try again"
    retriable = True

    @property
    def is_of_quota(self) -> bool:
        """Did an account's quota refuse it, as its sentence says (core/access/quota.py)?"""
        return QUOTA_WORDS in str(self)


class SequenceGap(NotDone):
    """A message of this producer came before the one that must precede it (safety rule R8)."""

    advice = "send the missing message first"
    retriable = True

    @property
    def missing(self) -> int | None:
        """The number that the broker wants next, as its sentence says (dledger/errors.py)."""
        stated = _COMES_NEXT.search(str(self))
        return None if stated is None else int(stated[1])


class SealStale(NotDone):
    """A sealed request is not of now: made too long ago, too far ahead, or before the node led.

    `stamp_ms`: a stamp that the node takes now, or None. Our client seals the request anew with it.
    """

    retriable = True

    def __init__(self, message: str = "", stamp_ms: int | None = None) -> None:
        self.stamp_ms = stamp_ms
        super().__init__(message or "this request was sealed at another time; ask again")


class FlowControlled(NotDone):
    """The broker slows pulls down; try again after a pause."""

    advice = "pause, then pull again"
    retriable = True


class SubscriptionMissing(NotDone):
    """The group has not announced its subscription to this topic yet."""

    advice = "send a heartbeat that names it, then pull again"
    retriable = True


class SubscriptionOutdated(NotDone):
    """The broker knows an older subscription of this group than the request names."""

    advice = "pull again"
    retriable = True


class TopicNotFound(NotDone):
    """No broker serves this topic; create it with `dledger topic create NAME`."""

    advice = "create it first (dledger topic create)"
    invalid_route = True


class TopicExists(NotDone):
    """A topic of this name exists already."""

    advice = "choose another name, or change that topic (dledger topic alter)"


class MessageTooLarge(NotDone):
    """A part of a message is over its limit."""

    advice = "send less at once"


class Unauthorized(NotDone):
    """The topic or the action is not allowed for this client."""

    advice = "use an account that may, or have this one allowed to"


class InvalidRequest(NotDone):
    """A value of the request is impossible, for example a queue id out of range."""

    advice = "correct the request, nothing was done"


class NumberUsed(NotDone):
    """The producer has stored another message under this number (safety rule R8).

    `queue_offset`: where that one is in its queue, -1 when the broker does not tell.
    """

    def __init__(self, message: str, queue_offset: int = -1) -> None:
        self.queue_offset = queue_offset
        super().__init__(message)


class RequestNotSupported(NotDone):
    """The node does not know this request code; `name_servers` may, where the node names some."""

    def __init__(self, message: str = "", name_servers: tuple[str, ...] = ()) -> None:
        self.name_servers = name_servers
        super().__init__(message)

    advice = "use a request that this service has"


class NotFound(NotDone):
    """The committed offset, message or value does not exist."""

    advice = "check what was asked for"


class SubscriptionInvalid(NotDone):
    """The filter expression cannot be read."""

    advice = "correct the expression"


class GroupNotFound(NotDone):
    """The consumer group does not exist and is not created by itself."""

    advice = "check its name (dledger group list)"


class ConsumerOffline(NotDone):
    """No member of the group is connected."""

    advice = "start a consumer of the group"


class IllegalOperation(NotDone):
    """The request came at a moment when it is not allowed."""

    advice = "look at its present state first"


class NotConnected(NotDone):
    """No node could be reached, and the request was not sent."""

    advice = "check the address, and whether the nodes run"
    retriable = True
    invalid_route = True


class NotTrusted(NotDone):
    """A node could be reached and its certificate is not one that this client believes."""

    advice = "check the certificate, and whom this client believes"


class ClientClosed(NotDone):
    """The client was used after `close()`."""

    advice = "connect again"


class OutcomeUnknown(ClusterError):
    """The operation may have happened and may still happen."""

    advice = "look whether it happened, or ask again"
    retriable = True
    outcome = Outcome.UNKNOWN


class ServerError(OutcomeUnknown):
    """The node reported a failure of its own; the request may be executed in part."""

    advice = "look into the log of that node"


class SendTimeout(OutcomeUnknown):
    """No answer within the time limit."""

    advice = "look whether it is stored before it is sent again"


class ReplyTimeout(OutcomeUnknown):
    """No reply to a request came within the time limit; it may be handled nevertheless."""

    advice = "look whether a consumer is there that replies"


class ConnectionLost(OutcomeUnknown):
    """The connection ended while the answer was awaited."""

    invalid_route = True


class LeaderLostWhileWaiting(OutcomeUnknown):
    """The leader stepped down while the message waited for its majority."""

    invalid_route = True


class ProducerForgotten(OutcomeUnknown):
    """The de-duplication state of this producer expired, so a repeat cannot be recognised."""

    advice = "look whether it is stored, and go on with a new producer"
    retriable = False


class UnknownResponseCode(OutcomeUnknown):
    """A response code that this client does not know; `code` holds it."""

    advice = "look into the log of that node"
    retriable = False

    def __init__(self, message: str, code: int) -> None:
        self.code = code
        super().__init__(message)


class ProtocolError(ClusterError):
    """Bytes and the protocol do not fit together."""

    advice = "check the address"


class LocalProtocolError(ProtocolError):
    """A value of ours cannot be put into a frame, and the frame was not sent."""

    advice = "correct the call, nothing was sent"


class RemoteProtocolError(ProtocolError):
    """The peer's bytes are not a frame, or a length is over its limit: close this connection.

    Attributes:
        frames: what was decoded in the same call before the bad bytes.
    """

    advice = "check that this is the address of a RocketMQ service"
    outcome = Outcome.UNKNOWN

    def __init__(self, message: str) -> None:
        self.frames: list[object] = []
        super().__init__(message)
