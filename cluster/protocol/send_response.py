"""Answers to sends, in the form that the requester reads (docs/spec/remoting.md 2.2).

Java throws when msgId, queueId or queueOffset is missing, so a success always carries them. For a
batch `msgId` is a comma-separated list and queueOffset that of the first message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import orjson

from cluster.errors import ClusterError
from cluster.protocol.codes import VERSION, VERSION_OWN, code_for
from cluster.protocol.frames import FLAG_RESPONSE, KIND_JSON, Frame, encode_frame, join, refusal_ext
from cluster.protocol.send import SendRequest
from cluster.protocol.send_own import OwnResponseEncoder
from commitlog.records.properties import find_property

_JSON: Final = (
    b'{"code":0,"extFields":{"msgId":"%b","queueId":"%d","queueOffset":"%d","transactionId":%b,'
    b'"MSG_REGION":%b,"TRACE_ON":"%b"},"flag":1,"language":"JAVA","opaque":%d,'
    b'"serializeTypeCurrentRPC":"JSON","version":%d}'
)
_UNIQUE_KEY: Final = b"UNIQ_KEY"


class SendResponder:
    """Writes the answers to sends of one broker.

    Args:
        store_host: upper-case hex of the address and port that message ids carry: 16 digits for
            IPv4, 40 for IPv6 (docs/spec/remoting.md 2.7).
        region: what MSG_REGION says.
        trace_on: may clients record message traces?
    """

    def __init__(
        self, store_host: str, region: str = "DefaultRegion", *, trace_on: bool = True
    ) -> None:
        assert len(store_host) in (16, 40), f"{store_host!r} is no packed host in hex"
        self._host = store_host.encode()
        self._region = region
        self._trace_on = "true" if trace_on else "false"
        self._own = OwnResponseEncoder(self._host) if len(store_host) == 16 else None
        self._region_json = orjson.dumps(region)

    def stored(
        self,
        request: SendRequest,
        *,
        queue_id: int,
        queue_offset: int,
        position: int,
        index: int,
        term: int,
        more_positions: Sequence[int] = (),
        recall_handle: str = "",
    ) -> bytes:
        """The frame that says: committed. `position` of the (first) message in the log, in bytes;
        `more_positions` those of a batch's other messages. `recall_handle` of a timer message."""
        template = request.template
        if template.version >= VERSION_OWN and template.kind and self._own:
            return self._own.encode(request.opaque, queue_id, queue_offset, index, term, position)
        ids = b",".join([b"%b%016X" % (self._host, place) for place in (position, *more_positions)])
        unique_key = find_property(request.properties, _UNIQUE_KEY) or b""
        if template.kind == KIND_JSON and not recall_handle:
            header = _JSON % (
                ids,
                queue_id,
                queue_offset,
                orjson.dumps(unique_key.decode("utf-8", "replace")),
                self._region_json,
                self._trace_on.encode(),
                request.opaque,
                VERSION,
            )
            return join(header, b"", KIND_JSON)
        ext = {
            "msgId": ids.decode(),
            "queueId": str(queue_id),
            "queueOffset": str(queue_offset),
            "transactionId": unique_key.decode("utf-8", "replace"),
            "MSG_REGION": self._region,
            "TRACE_ON": self._trace_on,
        }
        if template.is_own:
            ext |= {"index": str(index), "term": str(term)}
        if recall_handle:
            ext["recallHandle"] = recall_handle
        return encode_frame(
            Frame(0, request.opaque, ext, b"", FLAG_RESPONSE, None, "JAVA", VERSION, template.kind)
        )


def refuse_send(request: SendRequest, error: ClusterError) -> bytes:
    """The frame that tells the sender about `error`, in codes that its client knows."""
    template = request.template
    return encode_frame(
        Frame(
            code_for(error, template.version),
            request.opaque,
            refusal_ext(error),
            b"",
            FLAG_RESPONSE,
            str(error),
            "JAVA",
            VERSION,
            template.kind,
        )
    )
