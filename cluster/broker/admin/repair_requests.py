"""Damage that a replica knows in its own log: 31014, 31015. Any replica answers, for itself.

    31014  {"node": "n1", "damaged": [{"first": 7, "last": 8, "reason": "…"}], "refused": [],
            "scrubbing": true, "pass_share": 0.4, "passes": 2, "scrubbed_bytes": 123456,
            "found": 1, "restored_entries": 2, "mended_slots": 0}
    31015  {"node": "n1", "first_index": 0, "applied_index": 41, "last": 17, "chain_crc": 37359285,
            "damaged": -1, "reason": ""}

`last` of 31015 is the last entry that is whole (one below what was asked for when none is), and
`chain_crc` the rolling checksum there: equal on every replica, or their logs differ at or before
it. `damaged` is the next entry when it is not what was written, -1 else. Only applied entries are
looked at.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import orjson

from cluster.broker.admin.ports import AdminPorts
from cluster.broker.kernel.net.requests import Call, Handler, Who, fields
from cluster.core.access.needs import ADMIN
from cluster.errors import InvalidRequest
from cluster.protocol.codes import RequestCode
from cluster.protocol.replica_headers import ScrubLogRequest, VerifyLogRequest
from dledger.core.types import Index
from dledger.log.file_log import FileLog
from dledger.repair.scrubber import Scrubber

#: Read and verified for one answer, on the event loop: some 2 ms.
VERIFY_BYTES_MAX = 512 << 10


def scrub_log(ports: AdminPorts, call: Call, request: ScrubLogRequest) -> None:
    """31014."""
    driver = ports.log.driver
    if request.start:
        driver.scrub()
    body = {"node": ports.config.node_id, **asdict(driver.repair_status)}
    call.answer(0, body=orjson.dumps(body))


def verify_log(ports: AdminPorts, call: Call, request: VerifyLogRequest) -> None:
    """31015."""
    log = ports.log
    if not 0 <= request.first <= request.last + 1:
        raise InvalidRequest(
            f"entries {request.first} to {request.last} were asked for; give a first from 0 on, "
            "not behind the last"
        )
    store, applied = log.store, log.applied
    assert isinstance(store, FileLog), "a broker's log is in files"
    first, last = max(request.first, store.first_index), min(request.last, applied)
    found = Scrubber(store).verify(Index(first), Index(last), VERIFY_BYTES_MAX)
    body = {
        "node": ports.config.node_id,
        "first_index": store.first_index,
        "applied_index": applied,
        "last": found.tail.id.index,
        "chain_crc": found.tail.chain_crc or 0,
        "damaged": found.tail.id.index + 1 if found.reason else -1,
        "reason": found.reason,
    }
    call.answer(0, body=orjson.dumps(body))


ROUTES: dict[int, Handler[AdminPorts, Any]] = {
    RequestCode.SCRUB_LOG: Handler(Who.ANYWHERE, fields(ScrubLogRequest), ADMIN, scrub_log),
    RequestCode.VERIFY_LOG: Handler(Who.ANYWHERE, fields(VerifyLogRequest), ADMIN, verify_log),
}
