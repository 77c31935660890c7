"""31020, 31021: the audit log, read by administrators; an action of a tool put into it.

Requests of our tools say on whose behalf they ask, in two fields more. The audit log keeps them as
they are told; a broker that keeps none ignores them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

VIA: Final = "auditVia"
"""The tool: console, api, cli."""
BY: Final = "auditBy"
"""Its user: a role of the console, a user of a machine."""


@dataclass(frozen=True, slots=True)
class ListAuditRequest:
    """Entries of one broker name: see cluster/broker/access/audit/requests.py.

    `before`: those with lower numbers, the newest first. `after`: those with higher numbers, the
    oldest first. Neither: the newest.
    """

    max_num: int = 50
    before: int | None = None
    after: int | None = None
    since_ms: int | None = None
    account: str | None = None
    target: str | None = None
    outcome: str | None = None
    bname: str | None = None


@dataclass(frozen=True, slots=True)
class RecordActionRequest:
    """An action that a tool makes of other requests, such as dead letters sent again."""

    verb: str
    target: str
    command: str = ""
    bname: str | None = None
