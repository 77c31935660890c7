"""The log of the admin HTTP server: errors of dledger in full; bytes that are no request, counted.

Any program that reaches the port may send bytes that are no HTTP, or hang up during an answer.
aiohttp logs each case with a traceback, half a kilobyte of log for a few bytes.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

from aiohttp.http_exceptions import HttpProcessingError

from dledger.runtime.complaints import Complaints

_log = logging.getLogger(__name__)


class HttpLog(logging.LoggerAdapter[logging.Logger]):
    """The logger that aiohttp is given. `now`: seconds, never going back."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__(_log, {})
        self._complaints = Complaints(_log, now)

    def exception(self, msg: object, *args: object, exc_info: Any = True, **rest: Any) -> None:
        """As of a logger."""
        error = exc_info if isinstance(exc_info, BaseException) else sys.exc_info()[1]
        if isinstance(error, HttpProcessingError):
            self._complaints.say("malformed", "a request is no HTTP: %.100r", error.message)
        elif isinstance(error, ConnectionError):
            self._complaints.say("gone", "a client went before it had its answer")
        else:
            super().exception(msg, *args, exc_info=exc_info, **rest)
