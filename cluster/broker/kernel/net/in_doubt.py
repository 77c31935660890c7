"""A send that may be stored: it was passed on to a leader that was lost before it answered.

    follower ─ send, on a link of term 5 ─► leader of term 5, lost: its log has the record, or not
             ─ SEND_IN_DOUBT: the send, term 5, after 812 ─► leader of term 6 or later
                 it looks for the record in what its log has of earlier terms behind entry 812
                 found: answered like a send that was stored     not found: stored now

Why that stores it once (S8, R18). A record of the first try can only have an index above what the
follower had applied when it passed the send on, because the leader's log held all of that. It can
only have term 5, because a leader serves a link only in the term that the link was opened for. And
the log of a later leader holds every entry of earlier terms that will ever be committed.

The record is known by UNIQ_KEY, born time and the client's address, so another try of the client's
own is another send, as ever.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from cluster.errors import InvalidRequest, LeaderLostWhileWaiting
from cluster.protocol.codes import VERSION_OWN, RequestCode
from cluster.protocol.frames import Frame
from cluster.protocol.raw_sends import RawSend
from cluster.protocol.send import SEND_CODES
from dledger.core.types import Index, Term

_CODE: Final = "sendCode"
_AFTER: Final = "afterIndex"
_TERM: Final = "askedTerm"


class Doubt(NamedTuple):
    """The send as it came; applied when it was first passed on; the last term it was asked in."""

    frame: Frame
    after: Index
    term: Term


def may_be_in_doubt(frame: Frame | RawSend) -> bool:
    """Our own producers number their messages and ask again by themselves."""
    asked_before = frame.code == RequestCode.SEND_IN_DOUBT
    return asked_before or (frame.code in SEND_CODES and frame.version < VERSION_OWN)


def in_doubt(frame: Frame, after: Index, term: Term) -> Frame:
    """The request that settles it. `frame` may be one already: then it was asked in `term`, too."""
    if frame.code == RequestCode.SEND_IN_DOUBT:
        return frame._replace(ext={**frame.ext, _TERM: str(term)})
    ext = {**frame.ext, _CODE: str(int(frame.code)), _AFTER: str(after), _TERM: str(term)}
    return frame._replace(code=int(RequestCode.SEND_IN_DOUBT), ext=ext)


def read_doubt(frame: Frame) -> Doubt:
    """The parts of a frame that `in_doubt` made. Raises InvalidRequest."""
    ext = dict(frame.ext)
    try:
        code, after, term = (int(ext.pop(name)) for name in (_CODE, _AFTER, _TERM))
    except (KeyError, ValueError):
        code = after = term = -1
    if code not in SEND_CODES:
        raise InvalidRequest(
            "a send in doubt lacks what it was sent as; run the same release on every node"
        )
    return Doubt(frame._replace(code=code, ext=ext), Index(after), Term(term))


def lost_unanswered() -> LeaderLostWhileWaiting:
    """The error of a send with an outcome that stays unknown."""
    return LeaderLostWhileWaiting(
        "the leader was lost before it answered; the message may be stored, look or send again"
    )
