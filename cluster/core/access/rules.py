"""One request: may its sender do this? The order of checks is in README.md."""

from __future__ import annotations

from collections.abc import Mapping

from cluster.core.access.accounts import Account, Accounts
from cluster.core.access.needs import Needs, needs_of
from cluster.core.access.signature import ACCESS_KEY, is_signed


class Denied(Exception):
    """The sender may not do this; the sentence says what is missing."""


def check(
    accounts: Accounts, host: str, code: int, ext: Mapping[str, str], body: bytes, version: int
) -> None:
    """Raises Denied, with what is missing and never with a secret.

    Args:
        host: the client's address, without its port.
        version: of the client, as in its frames.
    """
    if any(fits(host) for fits in accounts.white):
        return
    key = ext.get(ACCESS_KEY, "")
    account = accounts.by_key.get(key)
    if account is None:
        raise Denied(
            f"there is no account with access key {key!r}; give the client its AccessKey"
            if key
            else "this broker wants an account; give the client its AccessKey and SecretKey"
        )
    free = account.white is not None and account.white(host)
    if not free and not is_signed(ext, body, account.secret_key, version):
        raise Denied(f"the signature of access key {key!r} is wrong; check the client's SecretKey")
    if not account.admin:
        _check_needs(account, needs_of(code, ext, body), code)


def _check_needs(account: Account, needs: Needs, code: int) -> None:
    if needs.admin:
        raise Denied(f"request {code} is for admin accounts; {account.access_key!r} is none")
    for topic, wanted in needs.topics:
        if not account.may(topic, wanted):
            raise Denied(f"{account.access_key!r} has no {wanted.name} of topic {topic}")
    for group, wanted in needs.groups:
        if not account.may_group(group, wanted):
            raise Denied(f"{account.access_key!r} has no {wanted.name} of group {group}")
