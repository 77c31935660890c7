"""One entry of the audit log, and its record: a message of an internal topic with a JSON body.

    rmq_sys_dledger_audit        an entry; its number is its queue offset, its time the store time
    rmq_sys_dledger_audit_kept   the same with `number` and `at_ms`, carried over from log files
                                 that were deleted (retention)

    {"account":"the-chief","address":"10.0.0.7:51432","by":"","client":"JAVA 5.3.3","code":17,
     "command":"dledger topic create orders -q 4","node":"n0","outcome":"done","parameters":{…},
     "target":"topic orders","verb":"topic create","via":"","why":""}

They are no state: a replica that passes them over has the same tables, so they need no feature
level (R28), and a version that does not know them keeps them as messages of a topic.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

from cluster.core.audit.parameters import shortened
from cluster.core.internal_topics import StateRecord, StateRecordError
from cluster.core.record_json import UNREADABLE, why
from cluster.core.topics import AUDIT_KEPT_TOPIC, AUDIT_TOPIC

DONE: Final = "done"
BEGUN: Final = "begun"
REFUSED: Final = "refused"
OUTCOMES: Final = (DONE, BEGUN, REFUSED)

TEXT_LENGTH_MAX: Final = 512
PARAMETERS_BYTES_MAX: Final = 4096


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A change, or an attempt at one.

    Attributes:
        verb: what was asked for, in the words of the command line.
        target: the thing that it is about, with its kind.
        outcome: DONE: it stands right behind this entry in the log. BEGUN: it was allowed and
            began; where it came to nothing an entry that says REFUSED follows.
        account: the access key that was proven; "" without access control, and from an address that
            needs no account. Of a refusal for a missing right or a wrong signature: the key that
            the client named.
        address: of the client, as host:port.
        client: its language and version, as it says.
        via: the tool that asked (console, api, cli), as it says; "": by the protocol alone.
        by: the user of that tool, as it says: a role of the console, a user of a machine.
        node: the node that wrote the entry.
        code: the request code.
        command: the `dledger` command that does the same; "": there is none.
        parameters: of the request, with secrets masked.
        why: of a refusal.
    """

    verb: str
    target: str
    outcome: str = DONE
    account: str = ""
    address: str = ""
    client: str = ""
    via: str = ""
    by: str = ""
    node: str = ""
    code: int = 0
    command: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""


@dataclass(frozen=True, slots=True)
class Audited:
    """An entry with its number, which grows with time, and when it was stored (ms since 1970)."""

    number: int
    at_ms: int
    entry: AuditEntry

    def to_json(self) -> dict[str, Any]:
        """As requests and commands show it."""
        return {"number": self.number, "at_ms": self.at_ms, **asdict(self.entry)}


_TEXTS: Final = tuple(one.name for one in fields(AuditEntry) if one.type == "str")


def entry_record(entry: AuditEntry) -> StateRecord:
    """The record of a new entry. Long texts and parameters are cut short."""
    return StateRecord(AUDIT_TOPIC, _dump(_row(entry)))


def kept_record(audited: Audited) -> StateRecord:
    """The second record of an entry; the first one goes with the log's oldest files."""
    row = {**_row(audited.entry), "number": audited.number, "at_ms": audited.at_ms}
    return StateRecord(AUDIT_KEPT_TOPIC, _dump(row))


def read_entry(body: bytes, number: int, at_ms: int) -> Audited:
    """Inverse of both. `number`, `at_ms`: queue offset and store time, which a kept one overrides.

    Raises StateRecordError.
    """
    try:
        row = json.loads(body)
        texts = {name: str(row.get(name, "")) for name in _TEXTS}
        parameters = row.get("parameters", {})
        if not isinstance(parameters, dict):
            raise TypeError("the parameters are no object")
        entry = AuditEntry(**texts, code=int(row.get("code", 0)), parameters=parameters)
        return Audited(int(row.get("number", number)), int(row.get("at_ms", at_ms)), entry)
    except UNREADABLE as error:
        raise StateRecordError(AUDIT_TOPIC, why(error)) from error


def _row(entry: AuditEntry) -> dict[str, Any]:
    row = asdict(entry)
    for name in _TEXTS:
        row[name] = row[name][:TEXT_LENGTH_MAX]
    row["parameters"] = shortened(entry.parameters, PARAMETERS_BYTES_MAX)
    return row


def _dump(row: Mapping[str, Any]) -> bytes:
    text = json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "replace")
