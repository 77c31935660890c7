"""For how much one signature is good: the request that it was first seen on, and its repeats.

Stock clients sign the values of fields and the body, joined by nothing: neither the code nor where
one field ends. So a server remembers, for WINDOW_SECONDS, what each signature was first used for:

    another code, other field names or borders    refused; codes of REPEATABLE may share one, as
                                                  stock clients ask 30 and 31, or lock and unlock,
                                                  with the same fields
    the same again, a code of REPEATABLE          goes on: it does nothing that the first did not
    the same again, any other code                from the same host it is the client's own retry,
                                                  from another one it is refused

At most ENTRIES_MAX signatures are remembered, about 300 bytes each. When there is no room for one
more, those older than KEPT_SECONDS_MIN are forgotten early. Where none is, requests of other codes
than REPEATABLE are refused, never let through unseen; those of REPEATABLE go on unremembered.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

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
    }
)  # fmt: skip
"""A repeat of these changes nothing that the first did not change. Every other code, a new one
too, changes something."""


class UsedBefore(Exception):
    """The signature was made for another request, or for this one of another client."""


class WindowFull(Exception):
    """No signature can be remembered now, so nothing that changes anything is served."""


class _Use(NamedTuple):
    """What a signature was first seen on."""

    at: float
    code: int
    form: bytes
    host: str | None


class SignatureWindow:
    """Signatures that were right, and what each was first used for."""

    def __init__(
        self,
        now: Callable[[], float],
        *,
        seconds: float = WINDOW_SECONDS,
        seconds_min: float = KEPT_SECONDS_MIN,
        entries_max: int = ENTRIES_MAX,
    ) -> None:
        """`now`: seconds of a clock that never goes back."""
        self._now, self._seconds, self._seconds_min = now, seconds, seconds_min
        self._entries_max = entries_max
        self._uses: dict[bytes, _Use] = {}
        self._order: deque[bytes] = deque()

    def __len__(self) -> int:
        return len(self._uses)

    def admit(self, code: int, ext: Mapping[str, str], body_size: int, host: str | None) -> None:
        """Raises UsedBefore or WindowFull. The signature was found to be right before.

        Args:
            host: the client's address, without its port; None where the request is only passed on:
                the leader says whose it is, and a thief who came here first must not.
        """
        now = self._now()
        self._forget(now - self._seconds)
        key = hashlib.blake2b(ext[SIGNATURE].encode(), digest_size=8).digest()
        form, repeatable = _form(ext, body_size), code in REPEATABLE
        first = self._uses.get(key)
        if first is None and len(self._uses) >= self._entries_max:
            self._forget(now - self._seconds_min)
        if first is not None:
            self._compare(first, _Use(now, code, form, host))
            if first.host is None:
                self._uses[key] = first._replace(host=host)
        elif len(self._uses) < self._entries_max:
            self._uses[key] = _Use(now, code, form, host)
            self._order.append(key)
        elif not repeatable:
            raise WindowFull(
                f"{self._entries_max} signatures of the last {self._seconds_min:g} s are "
                "remembered, and this server takes no more changes until it may forget some; "
                "try again soon"
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

    def _forget(self, before: float) -> None:
        order, uses = self._order, self._uses
        while order and uses[order[0]].at <= before:
            del uses[order.popleft()]


def _form(ext: Mapping[str, str], body_size: int) -> bytes:
    """Which fields there are and where each ends: what a signature does not say."""
    cuts = [f"{name}\0{len(ext[name].encode())}" for name in sorted(ext) if name != SIGNATURE]
    return hashlib.blake2b("\0".join((*cuts, str(body_size))).encode(), digest_size=8).digest()
