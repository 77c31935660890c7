"""Decisions of this feature's requests: the owner of a producer id, a reply as a message.

Sends themselves are not decided so: they fill this turn's batch, all of a connection's together
(send.py), since a value for each would cost what a send does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from cluster.broker.kernel.net.decisions import Step
from cluster.broker.kernel.net.requests import Call
from cluster.broker.kernel.write.send_target import SendTarget
from cluster.broker.produce.ports import ProducePorts
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import FLAG_ONEWAY
from cluster.protocol.send import SendRequest, SendTemplate
from commitlog.address import split_address
from commitlog.records.hosts import Host, pack_host


class TakenOver(NamedTuple):
    """The account `owner` has the producer id from here on."""

    producer_id: str
    owner: str

    def carry_out(self, ports: ProducePorts, call: Call) -> None:
        """Log the owner, unless there is no such id; then answer. Raises QueueFull."""
        sends = ports.sends
        sends.context.owners.take_over(self.producer_id, self.owner, call.done)
        sends.invalidate()  # targets of the former owner, which took the short way


class ReplyStored(NamedTuple):
    """The reply is a message of its topic, too; no answer waits for that."""

    request: SendRequest
    then: Step[ProducePorts]

    def carry_out(self, ports: ProducePorts, call: Call) -> None:
        """Send it to its topic, oneway, not while producers are refused; then go on."""
        request = self.request
        if ports.disk.used_ratio <= ports.live.now.disk_full_ratio:
            template = replace(request.template, code=int(RequestCode.SEND_MESSAGE_V2))
            flag, sender = request.flag | FLAG_ONEWAY, call.caller.key
            stored = request._replace(template=template, flag=flag, sender=sender)
            ports.sends.handle(_Replier(call.client.address), [stored])
        self.then.carry_out(ports, call)


class _Replier:
    """Sends a reply to the log; its answer has no reader."""

    targets_epoch = -1
    is_relayed = False  # a reply's queue is the one that it names

    def __init__(self, address: str) -> None:
        self.born_host = pack_host(Host(*split_address(address)))
        self.targets: dict[SendTemplate, SendTarget] = {}

    def write(self, data: bytes) -> None:
        raise AssertionError("a oneway send is not answered")
