"""Fields of a timer message's recall (370), and the handle that names it.

Source: docs/spec/remoting.md 2.2.

base64url( "v1" topic broker-name time-ms UNIQ_KEY ), separated by spaces
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Final

from cluster.errors import InvalidRequest

_HANDLE_VERSION: Final = "v1"


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """370: `recall_handle` is from the answer to the send."""

    topic: str
    recall_handle: str
    producer_group: str | None = None
    bname: str | None = None


@dataclass(frozen=True, slots=True)
class RecallResponse:
    """The recalled message's unique key."""

    msg_id: str


def recall_handle(topic: str, broker_name: str, time_ms: int, unique_key: str) -> str:
    """The handle by which a client recalls a timer message; 5.x clients read the broker's name."""
    text = " ".join((_HANDLE_VERSION, topic, broker_name, str(time_ms), unique_key))
    return base64.urlsafe_b64encode(text.encode()).decode()


def read_recall_handle(handle: str) -> tuple[str, str, int, str]:
    """Topic, broker name, time and unique key. Raises InvalidRequest."""
    try:
        text = base64.urlsafe_b64decode(handle.encode()).decode()
        version, topic, broker_name, time_ms, unique_key = text.split(" ")
        if version != _HANDLE_VERSION:
            raise ValueError(f"version {version}")
        return topic, broker_name, int(time_ms), unique_key
    except ValueError as error:
        raise InvalidRequest(f"the recall handle cannot be read: {error}") from None
