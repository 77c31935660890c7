"""31012, 31013: the members of a group, listed and changed by an administrator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ListMembersRequest:
    """Answered with a JSON object: see cluster/broker/admin/member_requests.py."""

    bname: str | None = None


@dataclass(frozen=True, slots=True)
class ChangeMembersRequest:
    """A change of the group. `kind`: add, add-learner, remove or readmit (the command `replace`).

    `dry_run`: the answer shows the group as it would be, and the group does not change.
    """

    kind: str
    node: str
    dry_run: bool = False
    bname: str | None = None
