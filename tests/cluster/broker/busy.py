"""A leader that has something of every kind on its way: what a leadership holds and may lose."""

from __future__ import annotations

from typing import Any

from cluster.protocol.codes import RequestCode as Code
from dledger.core.types import Index

from .by_hand import Asked, HandBroker, HandClient
from .test_admin_broker import lock_body
from .test_pop import Handle, handles, named, pop
from .test_transactions import COMMIT, Half

#: Until checks of halves and messages of level 1 are due, and nothing that waits gives up.
DUE_SECONDS = 7.0
WAIT_MS = 20_000
TOPIC = {
    "topic": "T2",
    "defaultTopic": "TBW102",
    "readQueueNums": 1,
    "writeQueueNums": 1,
    "perm": 6,
    "topicFilterType": "SINGLE_TAG",
}


def done(asked: Asked) -> Any:
    """The answer, which has come and is no error."""
    assert asked.answer is not None, "no answer came"
    assert asked.answer.code == 0, asked.answer.remark
    return asked.answer


class Busy:
    """What is committed before, and what is asked then and not committed."""

    def __init__(self, broker: HandBroker) -> None:
        self.broker, self.client = broker, broker.client()
        self.pop_handle: Handle | None = None
        self.half: Half | None = None

    def ask(self, code: Code, ext: dict[str, Any] | None = None, body: bytes = b"") -> Asked:
        return self.client.ask(code, ext, body)

    def half_sent(self, body: bytes, client: HandClient | None = None) -> Asked:
        block = f"TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01K{body.decode()}\x02"
        asked: Any = (client or self.client).send(body=body, properties=block, f=4)
        return asked  # type: ignore[no-any-return]

    def end(self, kind: int = COMMIT) -> Asked:
        assert self.half is not None
        return self.ask(Code.END_TRANSACTION, self.half.outcome(kind))

    def commit_offset(self, offset: int, topic: str = "T", group: str = "CG") -> Asked:
        place = {"consumerGroup": group, "topic": topic, "queueId": 0, "commitOffset": offset}
        return self.ask(Code.UPDATE_CONSUMER_OFFSET, place)

    def lock(self, client_id: str, *queues: int) -> Asked:
        return self.ask(Code.LOCK_BATCH_MQ, body=lock_body(client_id, *queues))

    def popped(self, **more: Any) -> Any:
        return pop(self.client, **more)

    def prepare(self) -> None:
        """Topics, groups, numbers, a message that a client holds, a half, a delayed message."""
        broker, client = self.broker, self.client
        created = [client.send(topic) for topic in ("T", "P", "O", "N")]
        created.append(self.ask(Code.UPDATE_AND_CREATE_TOPIC, TOPIC | {"topic": "Audited"}))
        broker.commit()
        client.heartbeat()
        numbered = [
            client.numbered(producer, number, topic="N") for number in range(2) for producer in "pq"
        ]
        broker.commit()
        for asked in (*created, *numbered):
            done(asked)
        taken = self.popped(topic="P", invisibleTime=1_000_000)
        broker.commit()
        (self.pop_handle,) = handles(done(taken))
        sent = self.half_sent(b"half")
        broker.commit()
        self.half = Half(done(sent))
        done_at = client.send(body=b"later", properties="DELAY\x013\x02")
        broker.commit()
        done(done_at)

    def begin(self) -> list[Asked]:
        """Everything at once, none of it committed; what was asked and waits for an answer."""
        broker, client = self.broker, self.client
        assert self.pop_handle is not None
        asked: list[Any] = [
            client.send(body=b"lost"),
            client.numbered("p", 2, topic="N"),
            client.pull(offset=1, suspend_ms=WAIT_MS),
            self.popped(topic="P", group="CG", pollTime=WAIT_MS, bornTime=broker.now_ms()),
            self.popped(topic="O", order="true"),
            self.ask(Code.ACK_MESSAGE, named(self.pop_handle, "P")),
            self.commit_offset(1),
            self.lock("c1", 0),
            client.send("New", body=b"new"),
            self.half_sent(b"second"),
            self.commit_offset(1, group="G2"),
            self.end(),
            self.ask(Code.UPDATE_AND_CREATE_TOPIC, TOPIC),
            self.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=b'{"groupName":"G3"}'),
        ]
        broker.turn()
        asked.append(client.numbered("p", 2, topic="N"))  # waits for the one on its way
        client.numbered("p", 0, topic="N")  # is answered: its original is in the log
        # For a send that another node passed on.
        broker.parts.sends.context.stored_before.look(Index(0))
        # A decision about files needs a log in files; the look that made it is done by hand.
        retention = broker.parts.housekeeping.retention
        retention._asked, retention._waiting_since = 1 << 20, 0.0
        broker.turn(DUE_SECONDS)
        # The entry of the topic that an administrator made is written again.
        assert broker.parts.control.keeping.begin(0, broker.parts.state.position, lambda: None)
        return asked
