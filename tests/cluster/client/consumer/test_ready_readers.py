"""What a refusal of the broker means to a consumer."""

from __future__ import annotations

from cluster.client.consumer.ready_readers import ReadyReaders
from cluster.errors import Unauthorized


def test_a_consumer_that_was_served_waits_for_a_paused_group() -> None:
    """An operator switches the group off and on again; no process has to be started anew."""
    ready = ReadyReaders(None, lambda: None)
    ready.refuse(Unauthorized("account orders has no SUB of topic other"))
    assert isinstance(ready.refusal, Unauthorized)
    ready.refuse(None)
    assert ready.refusal is None, "the right was given"
    ready.refuse(Unauthorized("group G may not consume now"))
    assert ready.refusal is None
