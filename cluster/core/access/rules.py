"""The caller of a request and its rights. The order of checks is in README.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cluster.core.access.accounts import Account, Accounts
from cluster.core.access.needs import Needs
from cluster.core.access.permission import Permission
from cluster.core.access.seal import SEAL, broken
from cluster.core.access.signature import ACCESS_KEY, SIGNATURE, is_signature, signed_content


class Denied(Exception):
    """The sender may not do this; the sentence names the missing permission."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request. Without an account and without `may_all` it has no permission.

    `host`: where the request comes from, "" when that does not matter.
    """

    account: Account | None = None
    may_all: bool = False
    owned: frozenset[str] = frozenset()
    host: str = ""

    @property
    def key(self) -> str:
        """The access key; "" without an account."""
        return "" if self.account is None else self.account.access_key

    @property
    def is_admin(self) -> bool:
        """May it do everything?"""
        return self.may_all or (self.account is not None and self.account.admin)

    def require(self, needs: Needs) -> None:
        """Raises Denied, which says the first right that is missing."""
        missing = self._missing(needs)
        if missing is not None:
            raise Denied(missing)

    def allows(self, needs: Needs) -> bool:
        """As `require`, without an error."""
        return self._missing(needs) is None

    def _missing(self, needs: Needs) -> str | None:
        account, host = self.account, self.host
        if needs.secret:
            return "the brokers alone read that; dledger account list shows what is no secret"
        if self.is_admin:
            return None
        if account is None:
            return "this needs an account; give the client its AccessKey and SecretKey"
        key = repr(account.access_key)
        if needs.admin:
            return f"this request is for admin accounts; {key} is none"
        for topic in needs.publish:
            if not account.may(topic, Permission.PUB, host):
                return f"{key} has no PUB of topic {topic[:255]}"
        for topic in needs.consume:
            if not account.may(topic, Permission.SUB, host):
                return f"{key} has no SUB of topic {topic[:255]}"
        for topic in needs.know:
            if not any(account.may(topic, one, host) for one in Permission):
                return f"{key} has neither PUB nor SUB of topic {topic[:255]}"
        for group in needs.groups:
            if not account.may_group(group, Permission.SUB, host):
                return f"{key} has no SUB of group {group[:255]}"
        for group in needs.producers:
            if group in self.owned and not account.may_group(group, Permission.PUB, host):
                return f"{key} has no PUB of group {group[:255]}, which another account has"
        for producer in needs.take_over:
            if not account.may_take_over(producer):
                return f"{key} may not take over producer {producer[:255]} (takeOverProducers)"
        return None


NOBODY = Caller()
ANYBODY = Caller(may_all=True)
#: Nobody asked for an account when the request came.
UNASKED = Caller(may_all=True)
"""The caller where access control is off."""


def caller_of(
    accounts: Accounts, host: str, code: int, ext: Mapping[str, str], body: bytes, version: int
) -> Caller:
    """The sender of a signed request. Raises Denied, never with a secret.

    Args:
        host: the client's address, without its port.
        code: of the request; a seal says what it was (seal.py).
        version: of the client, as in its frames.
    """
    if any(fits(host) for fits in accounts.white):
        return ANYBODY
    key = ext.get(ACCESS_KEY, "")
    account = accounts.by_key.get(key)
    if account is None:
        raise Denied(
            f"there is no account with access key {key[:255]!r}; give the client its AccessKey"
            if key
            else "this server wants an account; give the client its AccessKey and SecretKey"
        )
    if not account.enabled:
        raise Denied(f"the account with access key {key[:255]!r} is disabled; have it enabled")
    free = account.white is not None and account.white(host)
    if not free:
        _check_signature(account, code, ext, body, version)
    return Caller(account, owned=accounts.owned_groups, host=host)


def _check_signature(
    account: Account, code: int, ext: Mapping[str, str], body: bytes, version: int
) -> None:
    key, content = repr(account.access_key), signed_content(ext, body, version)
    given = ext.get(SIGNATURE, "")
    if not any(is_signature(given, content, secret) for secret in account.secrets()):
        raise Denied(f"the signature of access key {key} is wrong; check the client's SecretKey")
    problem = broken(code, ext, len(body), content)
    if problem is not None:
        raise Denied(f"a request of access key {key} was changed on its way: {problem}; use TLS")
    if account.sealed and SEAL not in ext:
        raise Denied(
            f"the account of access key {key} takes sealed requests only; ask with a client that "
            "seals, or take `sealed: required` out of the account"
        )


def claimed(accounts: Accounts, host: str, key: str) -> Caller:
    """The caller with that access key, after a check of its signature."""
    if any(fits(host) for fits in accounts.white):
        return ANYBODY
    account = accounts.by_key.get(key)
    if account is not None and not account.enabled:
        account = None
    return Caller(account, owned=accounts.owned_groups, host=host)
