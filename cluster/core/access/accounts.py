"""Accounts, in the shape of RocketMQ's plain_acl.yml.

globalWhiteRemoteAddresses: [10.0.0.*]
accounts:
- accessKey: orders-service            6 characters at least
  secretKey: 1f0c…                     8 characters at least (cluster/security/access_file.py)
  previousSecretKey: 77ab…             counts as well, until it is taken away (ours)
  whiteRemoteAddress: 192.168.0.*      needs no signature from there
  sealed: optional                     optional | required: unsealed requests are refused (ours)
  admin: false
  defaultTopicPerm: DENY               DENY | PUB | SUB | PUB|SUB
  defaultGroupPerm: SUB
  topicPerms: [orders=PUB|SUB]
  groupPerms: [billing=SUB, payments=PUB]    payments=PUB: no other account produces in its name
  takeOverProducers: [batch/9f3c/*]          producer ids of other accounts that it may go on with;
                                             "*" at the end stands for any rest
  maxMessages: 1000                    quotas, none where they are left out (quota.py, ours)
  maxBytes: 1048576
  maxConnections: 10
  status: enable                             enable | disable: every request is refused (ours)
  policies: []                               RocketMQ 5's, which come first (policies.py)

Rows of the log (account_table.py) have the same shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cluster.core.access.addresses import Matcher, matcher
from cluster.core.access.permission import Permission
from cluster.core.access.policies import Resource, read_policy
from cluster.core.access.policy_index import Policies
from cluster.core.access.quota import FIELDS as QUOTA_FIELDS
from cluster.core.access.quota import Quota, read_quota
from cluster.core.topics import FORBIDDEN_TO_CLIENTS, SYSTEM_PREFIX
from commitlog.advice import Advised

KEY_LENGTH_MIN = 6  # of access key and secret, as in RocketMQ
PREVIOUS_SECRET = "previousSecretKey"


class AccountsError(Advised, ValueError):
    """The accounts cannot be understood; the sentence says where."""

    advice = "correct it"


@dataclass(frozen=True, slots=True)
class Account:
    """One access key."""

    access_key: str
    secret_key: str
    admin: bool = False
    sealed: bool = False  # takes no request that is not sealed (seal.py); stock clients seal none
    white: Matcher | None = None
    default_topic: Permission = Permission.DENY
    default_group: Permission = Permission.DENY
    topics: Mapping[str, Permission] = field(default_factory=dict)
    groups: Mapping[str, Permission] = field(default_factory=dict)
    take_over: tuple[str, ...] = ()
    enabled: bool = True
    policies: Policies = Policies()  # noqa: RUF009
    quota: Quota | None = None
    previous_secret: str | None = None

    def secrets(self) -> tuple[str, ...]:
        """The secrets that the account may sign with, the newest first."""
        previous = self.previous_secret
        return (self.secret_key,) if previous is None else (self.secret_key, previous)

    def may(self, topic: str, wanted: Permission, host: str = "") -> bool:
        """The broker's own topics hold messages of others, so no default and no pattern gives them.

        `host`: where the request comes from, "" when that is not known.
        """
        brokers_own = is_brokers_own(topic)
        if self.policies:
            found = self.policies.decide(Resource.TOPIC, topic, wanted, host, by_name=brokers_own)
            if found is not None:
                return found
        default = Permission.DENY if brokers_own else self.default_topic
        return wanted in self.topics.get(topic, default)

    def may_group(self, group: str, wanted: Permission, host: str = "") -> bool:
        """As `may`, of a group."""
        if self.policies:
            found = self.policies.decide(Resource.GROUP, group, wanted, host)
            if found is not None:
                return found
        return wanted in self.groups.get(group, self.default_group)

    def may_take_over(self, producer: str) -> bool:
        """May it make itself the owner of that producer id?"""
        return any(
            producer.startswith(pattern[:-1]) if pattern.endswith("*") else producer == pattern
            for pattern in self.take_over
        )

    def __repr__(self) -> str:
        return f"Account({self.access_key!r}, admin={self.admin})"  # never the secret


@dataclass(frozen=True, slots=True)
class Accounts:
    """Everything that the file says."""

    by_key: Mapping[str, Account]
    white: tuple[Matcher, ...] = ()
    owned_groups: frozenset[str] = frozenset()  # that some account has PUB of, by name


def read_accounts(document: Any) -> Accounts:
    """The parsed file → accounts. Raises AccountsError, naming the account and the field."""
    if not isinstance(document, Mapping):
        raise AccountsError("the accounts file holds no mapping; begin it with accounts:")
    unknown = set(document) - {"globalWhiteRemoteAddresses", "accounts"}
    if unknown:
        raise AccountsError(
            f"unknown key {sorted(map(str, unknown))[0]!r} in the accounts file; remove it or "
            "correct its name"
        )
    white = tuple(
        _matcher(str(pattern), "globalWhiteRemoteAddresses")
        for pattern in _list(document.get("globalWhiteRemoteAddresses"), "the addresses")
    )
    by_key: dict[str, Account] = {}
    for number, row in enumerate(_list(document.get("accounts"), "accounts"), 1):
        account = read_account(row, number)
        if account.access_key in by_key:
            raise AccountsError(
                f"access key {account.access_key!r} is there twice; remove one of them"
            )
        by_key[account.access_key] = account
    return accounts_of(by_key, white)


def accounts_of(by_key: Mapping[str, Account], white: tuple[Matcher, ...] = ()) -> Accounts:
    """Make `Accounts` of these accounts, with the groups that they own together."""
    owned = {
        group
        for account in by_key.values()
        for group, permission in account.groups.items()
        if Permission.PUB in permission
    }
    return Accounts(by_key, white, frozenset(owned))


def is_brokers_own(topic: str) -> bool:
    """Is it one of the topics in which the broker keeps its own records?"""
    return topic in FORBIDDEN_TO_CLIENTS or topic.startswith(SYSTEM_PREFIX)


_FIELDS = frozenset(
    {
        "accessKey",
        "secretKey",
        PREVIOUS_SECRET,
        "whiteRemoteAddress",
        "admin",
        "sealed",
        "defaultTopicPerm",
        "defaultGroupPerm",
        "topicPerms",
        "groupPerms",
        "takeOverProducers",
        "status",
        "policies",
        *QUOTA_FIELDS,
    }
)


def read_account(row: Any, number: int = 1) -> Account:
    """One row → the account. Raises AccountsError, naming the field.

    Rows of the log are read by it in every replay: a record with a row that it refuses is passed
    over. So what it accepts, and how it reads that, belong to a feature level (R28); stricter
    checks stand before the logging of a row (account_rows.py), and in the reading of files.
    """
    if not isinstance(row, Mapping):
        raise AccountsError(f"account {number} is no mapping; give it accessKey and secretKey")
    unknown = set(row) - _FIELDS
    if unknown:
        raise AccountsError(f"account {number}: unknown key {sorted(map(str, unknown))[0]!r}")
    key, secret = str(row.get("accessKey") or ""), str(row.get("secretKey") or "")
    for name, value in (("accessKey", key), ("secretKey", secret)):
        if len(value) < KEY_LENGTH_MIN:
            raise AccountsError(
                f"account {number}: {name} has {len(value)} characters, at least {KEY_LENGTH_MIN} "
                "are wanted"
            )
    admin = row.get("admin", False)
    if not isinstance(admin, bool):
        raise AccountsError(f"account {key!r}: admin is {admin!r}; write true or false")
    address = row.get("whiteRemoteAddress")
    return Account(
        key,
        secret,
        admin,
        _sealed(row.get("sealed", "optional"), key),
        None if address in (None, "") else _matcher(str(address), f"account {key!r}"),
        _permission(row.get("defaultTopicPerm", "DENY"), f"account {key!r}"),
        _permission(row.get("defaultGroupPerm", "DENY"), f"account {key!r}"),
        _permissions(row.get("topicPerms"), f"account {key!r}, topicPerms"),
        _permissions(row.get("groupPerms"), f"account {key!r}, groupPerms"),
        _texts(row.get("takeOverProducers"), f"account {key!r}, takeOverProducers"),
        _enabled(row.get("status", "enable"), key),
        _policies(row.get("policies"), key),
        _quota(row, key),
        _previous_secret(row, key),
    )


def _previous_secret(row: Mapping[str, Any], key: str) -> str | None:
    given = row.get(PREVIOUS_SECRET)
    if given is None:
        return None
    if len(text := str(given)) < KEY_LENGTH_MIN:
        raise AccountsError(
            f"account {key!r}: {PREVIOUS_SECRET} has {len(text)} characters, at least "
            f"{KEY_LENGTH_MIN} are wanted"
        )
    return text


def _enabled(text: Any, key: str) -> bool:
    if text not in ("enable", "disable"):
        raise AccountsError(f"account {key!r}: status is {text!r}, enable or disable is wanted")
    return bool(text == "enable")


def _quota(row: Mapping[str, Any], key: str) -> Quota | None:
    try:
        return read_quota(row)
    except ValueError as error:
        raise AccountsError(f"account {key!r}: {error}") from None


def _policies(rows: Any, key: str) -> Policies:
    try:
        return Policies(map(read_policy, _list(rows, f"account {key!r}, policies")))
    except ValueError as error:
        raise AccountsError(f"account {key!r}, policies: {error}") from None


def _sealed(text: Any, key: str) -> bool:
    if text not in ("optional", "required"):
        raise AccountsError(f"account {key!r}: sealed is {text!r}, optional or required is wanted")
    return bool(text == "required")


def _permissions(rows: Any, where: str) -> dict[str, Permission]:
    found = {}
    for row in _list(rows, where):
        name, equals, text = str(row).partition("=")
        if not equals or not name:
            raise AccountsError(f"{where}: {row!r} is not of the form name=PUB|SUB; write it so")
        found[name.strip()] = _permission(text, where)
    return found


def _texts(rows: Any, where: str) -> tuple[str, ...]:
    found = _list(rows, where)
    for row in found:
        if not isinstance(row, str) or not row:
            raise AccountsError(f"{where}: {row!r} is no producer id; put it in quotes")
    return tuple(found)


def _permission(text: Any, where: str) -> Permission:
    found = Permission.DENY
    for word in str(text).split("|"):
        try:
            found |= Permission[word.strip()]
        except KeyError:
            raise AccountsError(
                f"{where}: {text!r} is no permission; write DENY, PUB, SUB or PUB|SUB"
            ) from None
    return found


def _matcher(pattern: str, where: str) -> Matcher:
    try:
        return matcher(pattern)
    except ValueError as error:
        raise AccountsError(f"{where}: {error}") from None


def _list(value: Any, where: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise AccountsError(f"{where} is {value!r}; write a list")
    return value
