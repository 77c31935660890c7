"""Errors of the API: a status, an id, a sentence, and one thing to try.

    {"error": {"id": "topic-not-found", "message": "…", "try": "…", "retriable": false}}

The id of an error of the cluster is its class: TopicNotFound becomes topic-not-found.
"""

from __future__ import annotations

import re
from typing import Any

from cluster import errors
from cluster.errors import ClusterError, Outcome
from commitlog.advice import BETWEEN, Advised

_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")

_STATUS: dict[type[ClusterError], int] = {
    errors.TopicNotFound: 404,
    errors.NotFound: 404,
    errors.GroupNotFound: 404,
    errors.ConsumerOffline: 404,
    errors.TopicExists: 409,
    errors.IllegalOperation: 409,
    errors.InvalidRequest: 400,
    errors.LocalProtocolError: 400,
    errors.MessageTooLarge: 413,
    errors.Unauthorized: 403,
    errors.FlowControlled: 429,
    errors.QueueFull: 429,
}
"""Statuses of the refusals that a caller can do something about; all others are 502, 503, 504."""


class ApiError(Advised):
    """A request that is not answered. Its text is a sentence, "; ", and one thing to try."""

    advice = "correct the request"

    def __init__(self, status: int, kind: str, text: str, *, retriable: bool = False) -> None:
        """`kind`: the error's id, words joined with "-"."""
        super().__init__(text)
        self.status, self.kind, self.retriable = status, kind, retriable

    def to_json(self) -> dict[str, Any]:
        """The body of the answer."""
        message, _, attempt = str(self).rpartition(BETWEEN)
        return {
            "error": {
                "id": self.kind,
                "message": message or str(self),
                "try": attempt if message else self.advice,
                "retriable": self.retriable,
            }
        }


def api_error(error: ClusterError) -> ApiError:
    """The same as the API says it."""
    status = next(
        (_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS),
        _status_by_outcome(error),
    )
    kind = _WORD.sub("-", type(error).__name__).lower()
    return ApiError(status, kind, str(error), retriable=error.retriable)


def _status_by_outcome(error: ClusterError) -> int:
    if error.outcome is Outcome.UNKNOWN:
        return 504 if error.retriable else 502
    return 503 if error.retriable else 502
