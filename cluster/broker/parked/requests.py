"""Request codes of this folder."""

from __future__ import annotations

from cluster.broker.parked.recalls import recall
from cluster.broker.parked.retries import send_back
from cluster.broker.serving.requests import Route, Who
from cluster.protocol.codes import RequestCode

ROUTES: dict[int, Route] = {
    RequestCode.CONSUMER_SEND_MSG_BACK: Route(Who.LEADER, send_back),
    RequestCode.RECALL_MESSAGE: Route(Who.LEADER, recall),
}
