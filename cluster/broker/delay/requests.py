"""Request codes of this folder."""

from __future__ import annotations

from typing import Any

from cluster.broker.delay.ports import DelayPorts
from cluster.broker.delay.recalls import needs_of_recall, read_recall, recall
from cluster.broker.delay.retries import needs_of_send_back, send_back
from cluster.broker.kernel.net.requests import Handler, Who, fields
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import SendBackRequest

ROUTES: dict[int, Handler[DelayPorts, Any]] = {
    RequestCode.CONSUMER_SEND_MSG_BACK: Handler(
        Who.LEADER, fields(SendBackRequest), needs_of_send_back, send_back
    ),
    RequestCode.RECALL_MESSAGE: Handler(Who.LEADER, read_recall, needs_of_recall, recall),
}
