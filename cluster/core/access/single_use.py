"""Bounds one signature to the request that it was first seen on, and its repeats.

Stock clients sign the values of fields and the body, joined by nothing: neither the code nor where
one field ends. So a server remembers, for WINDOW_SECONDS, what each signature was first used for:

    another code, other field names or borders    refused; codes of REPEATABLE may share one, as
                                                  stock clients ask 30 and 31, or lock and unlock,
                                                  with the same fields
    the same again, a code of REPEATABLE          goes on: it does nothing that the first did not
    the same again, any other code                from the same host it is the client's own retry,
                                                  from another one it is refused

A sealed request (seal.py) is good for one attempt, whatever its code: a seal that comes again is
refused, and so is one whose stamp is not of now. Now is this server's clock as seal_time.py follows
it, STAMP_BEHIND_SECONDS back and STAMP_AHEAD_SECONDS ahead, and never before what the server no
longer, or not yet, knows: its start, and the newest signature that it forgot early. For what is
none of LOOKS it is not before this node began to lead, nor up to the last stamp that a leader
before put into the log (`judge_age`, `spend_until`). A peer judged what it passes on; the leader
judges what is none of LOOKS once more, and takes a repeat from the same peer
only: that one asks again when a link breaks.

At most ENTRIES_MAX signatures are remembered, about 300 bytes each. When there is no space for one
more, those older than KEPT_SECONDS_MIN are forgotten early. Where none is, requests of other codes
than REPEATABLE (sealed: than LOOKS) are refused, never let through unseen; those go on, and are not
remembered.
"""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from cluster.core.access.seal import Seal, form_of, read_seal
from cluster.core.access.seal_time import (
    SLEW_RATE,
    STAMP_AHEAD_SECONDS,
    STAMP_BEHIND_SECONDS,
    SealTime,
)
from cluster.core.access.signature import SIGNATURE
from cluster.protocol.codes import RequestCode as Code

WINDOW_SECONDS: Final = 60.0
KEPT_SECONDS_MIN: Final = 15.0
ENTRIES_MAX: Final = 300_000  # 90 MB; 5,000 a second for 60 s each, 20,000 a second for 15 s each

REPEATABLE: Final = frozenset(
    {
        Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE, Code.QUERY_MESSAGE, Code.VIEW_MESSAGE_BY_ID,
        Code.PEEK_MESSAGE, Code.NOTIFICATION, Code.POLLING_INFO,
        Code.QUERY_BROKER_OFFSET, Code.QUERY_CONSUMER_OFFSET, Code.UPDATE_CONSUMER_OFFSET,
        Code.SEARCH_OFFSET_BY_TIMESTAMP, Code.GET_MAX_OFFSET, Code.GET_MIN_OFFSET,
        Code.GET_EARLIEST_MSG_STORETIME, Code.GET_ALL_CONSUMER_OFFSET,
        Code.HEART_BEAT, Code.CHECK_CLIENT_CONFIG, Code.END_TRANSACTION,
        Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ, Code.QUERY_ASSIGNMENT,
        Code.GET_ALL_MESSAGE_REQUEST_MODE,
        Code.GET_ALL_TOPIC_CONFIG, Code.GET_TOPIC_CONFIG, Code.GET_TOPIC_STATS_INFO,
        Code.GET_BROKER_CONFIG, Code.GET_BROKER_RUNTIME_INFO, Code.VIEW_BROKER_STATS_DATA,
        Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Code.GET_SUBSCRIPTIONGROUP_CONFIG,
        Code.GET_CONSUMER_LIST_BY_GROUP, Code.GET_CONSUMER_CONNECTION_LIST,
        Code.GET_PRODUCER_CONNECTION_LIST, Code.GET_ALL_PRODUCER_INFO, Code.GET_CONSUME_STATS,
        Code.GET_BROKER_CONSUME_STATS, Code.GET_CONSUMER_RUNNING_INFO,
        Code.GET_CONSUMER_STATUS_FROM_CLIENT, Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
        Code.QUERY_TOPIC_CONSUME_BY_WHO, Code.QUERY_TOPICS_BY_CONSUMER,
        Code.QUERY_SUBSCRIPTION_BY_CONSUMER, Code.QUERY_CONSUME_TIME_SPAN,
        Code.QUERY_CORRECTION_OFFSET, Code.QUERY_CONSUME_QUEUE, Code.QUERY_DATA_VERSION,
        Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, Code.GET_SYSTEM_TOPIC_LIST_FROM_NS,
        Code.GET_KV_CONFIG, Code.GET_KVLIST_BY_NAMESPACE, Code.GET_ROUTEINFO_BY_TOPIC,
        Code.GET_BROKER_CLUSTER_INFO, Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        Code.GET_TOPICS_BY_CLUSTER, Code.GET_NAMESRV_CONFIG,
        Code.FETCH_LOG_RANGE, Code.FETCH_QUEUE_RANGE, Code.LIST_MEMBERS,
        Code.LIST_ACCOUNTS, Code.AUTH_GET_USER, Code.AUTH_LIST_USER, Code.AUTH_GET_ACL,
        Code.AUTH_LIST_ACL, Code.LIST_AUDIT,
    }
)  # fmt: skip
"""A repeat of these changes nothing that the first did not change. Every other code, a new one
too, changes something."""

LOOKS: Final = REPEATABLE - {
    Code.UPDATE_CONSUMER_OFFSET, Code.END_TRANSACTION, Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ,
}  # fmt: skip
"""Those change nothing however late they come. A late repeat of the others takes an offset or a
lock back; stock clients repeat them, and who seals has no need to."""


class UsedBefore(Exception):
    """The signature was made for another request, or for this one of another client."""


class SealNotOfNow(Exception):
    """The stamp of a seal is too old, too new, or of before this server could know of it.

    `stamp_ms`: a stamp that is taken now; a client that makes a new seal with it is served.
    """

    def __init__(self, sentence: str, stamp_ms: int) -> None:
        super().__init__(sentence)
        self.stamp_ms = stamp_ms


class WindowFull(Exception):
    """No more signatures can be remembered now, so requests that change state are refused."""


class _Use(NamedTuple):
    """The request that a signature was first seen on."""

    at: float
    code: int
    form: bytes
    host: str | None
    peer: str | None = None


class SignatureWindow:
    """Valid signatures, each with the request that it was first used for."""

    def __init__(
        self,
        now: Callable[[], float],
        now_ms: Callable[[], float] = lambda: 0.0,
        *,
        seconds: float = WINDOW_SECONDS,
        seconds_min: float = KEPT_SECONDS_MIN,
        entries_max: int = ENTRIES_MAX,
    ) -> None:
        """`now`: seconds of a clock that never goes back; `now_ms`: the time of day, which stamps
        of seals are compared with."""
        assert seconds * SLEW_RATE >= STAMP_BEHIND_SECONDS + STAMP_AHEAD_SECONDS, (
            "a seal outlives its memory"
        )
        self._time = SealTime(now, now_ms)
        self._fresh_since = now()
        self._now, self._seconds, self._seconds_min = now, seconds, seconds_min
        self._entries_max = entries_max
        self._uses: dict[bytes, _Use] = {}
        self._order: deque[bytes] = deque()

    def __len__(self) -> int:
        return len(self._uses)

    def admit(
        self,
        code: int,
        ext: Mapping[str, str],
        body_size: int,
        host: str | None,
        peer: str | None = None,
    ) -> None:
        """Take a signature, which was verified before with the code and fields that a seal names.
        Raises UsedBefore, SealNotOfNow or WindowFull.

        Args:
            host: the client's address, without its port; None where the request is only passed on:
                the leader says whose it is, and a thief who came here first must not.
            peer: the node that passed it on; None where it comes from the client.
        """
        now, seal = self._now(), read_seal(ext)
        if seal is not None:
            if peer is not None and code in LOOKS:
                return
            self._judge(seal, self._fresh_since)
            self._time.taken(seal.stamp_ms)
        self._forget(now - self._seconds)
        key = hashlib.blake2b(ext[SIGNATURE].encode(), digest_size=8).digest()
        form = form_of(ext, body_size) if seal is None else seal.form
        first = self._uses.get(key)
        if first is None and len(self._uses) >= self._entries_max:
            self._forget_early(now - self._seconds_min)
        if first is not None and seal is not None:
            if peer is None or first.peer != peer:
                raise UsedBefore("this sealed request was used before; seal each attempt anew")
        elif first is not None:
            self._compare(first, _Use(now, code, form, host))
            if first.host is None:
                self._uses[key] = first._replace(host=host)
        elif len(self._uses) < self._entries_max:
            self._uses[key] = _Use(now, code, form, host, peer)
            self._order.append(key)
        elif code not in (REPEATABLE if seal is None else LOOKS):
            raise WindowFull(
                f"{self._entries_max} signatures of the last {self._seconds_min:g} s are "
                "remembered, and this server takes no more changes until it may forget some; "
                "try again soon"
            )

    def judge_age(self, code: int, ext: Mapping[str, str], since: float) -> int | None:
        """Check that a changing request was sealed after `since` (seconds of `now`), when this node
        began to lead: seals that the former leader took are unknown here. Raises SealNotOfNow.

        Returns its stamp; None for what is not sealed, or changes nothing.
        """
        seal = read_seal(ext)
        if seal is None or code in LOOKS:
            return None
        self._judge(seal, max(since, self._fresh_since))
        return seal.stamp_ms

    def spend_until(self, stamp_ms: int) -> None:
        """No seal with a stamp up to this one is good here any more."""
        self._time.spend_until(stamp_ms)

    def _judge(self, seal: Seal, since: float) -> None:
        if self._time.takes(seal.stamp_ms) and seal.stamp_ms > self._time.latest_at(since):
            return
        now_ms = self._time.read()
        age = (now_ms - seal.stamp_ms) / 1000
        side = "behind" if age >= 0 else "ahead of"
        raise SealNotOfNow(
            f"this request was sealed {abs(age):.3f} s {side} this server's time, which takes "
            f"{STAMP_BEHIND_SECONDS:g} s behind, {STAMP_AHEAD_SECONDS:g} s ahead, and nothing of "
            "before it began to serve; seal it anew with that time, or set the client's clock",
            math.floor(now_ms) + 1,
        )

    def _compare(self, first: _Use, use: _Use) -> None:
        seconds = max(1, round(first.at + self._seconds - use.at))
        advice = f"use TLS if you did not send both, or ask again in {seconds} s"
        if use.form != first.form:
            raise UsedBefore(f"this signature was used with other fields just now; {advice}")
        repeatable = use.code in REPEATABLE
        if use.code != first.code and not (repeatable and first.code in REPEATABLE):
            raise UsedBefore(f"this signature was used for request {first.code}; {advice}")
        if None not in (use.host, first.host) and use.host != first.host and not repeatable:
            raise UsedBefore(
                f"another client, at {first.host}, sent this very request just now; {advice}"
            )

    def _forget(self, before: float) -> float | None:
        """When the last of those that are forgotten came."""
        order, uses, last = self._order, self._uses, None
        while order and uses[order[0]].at <= before:
            last = uses.pop(order.popleft()).at
        return last

    def _forget_early(self, before: float) -> None:
        last = self._forget(before)
        if last is not None:
            self._fresh_since = max(self._fresh_since, last + STAMP_AHEAD_SECONDS / SLEW_RATE)
