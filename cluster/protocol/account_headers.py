"""31019: the accounts of the log. 3001 to 3010: RocketMQ 5's users and ACLs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ListAccountsRequest:
    """Answered with a JSON object: see cluster/broker/access/accounts/requests.py."""

    bname: str | None = None


@dataclass(frozen=True, slots=True)
class UserRequest:
    """3001 to 3004."""

    username: str


@dataclass(frozen=True, slots=True)
class ListUsersRequest:
    """3005; `filter`: a part of their names."""

    filter: str | None = None


@dataclass(frozen=True, slots=True)
class AclRequest:
    """3006, 3007 and 3009; `subject`: User:NAME."""

    subject: str


@dataclass(frozen=True, slots=True)
class DeleteAclRequest:
    """3008; without `resource` all policies go."""

    subject: str
    policy_type: str | None = None
    resource: str | None = None


@dataclass(frozen=True, slots=True)
class ListAclsRequest:
    """3010; each a part of the subject or the resource, absent: all."""

    subject_filter: str | None = None
    resource_filter: str | None = None
