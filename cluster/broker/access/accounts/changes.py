"""A change of accounts is checked against the current ones, and decided; one at a time.

    rows ─► the log's form ─► checks: secrets, sizes, an administrator is left ─► [level mark]
         ─► one entry ─► answered

A second change is refused until the first is applied, because each is checked against the accounts
that the one before leaves: otherwise two requests that each delete one of two administrators would
both pass (R29). A new leader first applies all changes that earlier leaders logged, so the only
change that can still be on its way is the leader's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from cluster.broker.access.ports import AccessPorts
from cluster.broker.kernel.net.decisions import Decision
from cluster.broker.kernel.write.level_mark import level_mark
from cluster.broker.kernel.write.state_writer import ACCOUNTS
from cluster.core.access.account_rows import logged_row
from cluster.core.access.account_table import NO_ADMINISTRATOR
from cluster.core.access.accounts import AccountsError, read_account
from cluster.core.feature_level import ACCOUNTS_LEVEL, QUOTAS_LEVEL, SECRETS_LEVEL
from cluster.core.internal_topics import AccountsChanged, LevelRaised
from cluster.core.leveled_tables import level_of_accounts
from cluster.errors import InvalidRequest, ServiceNotAvailable
from cluster.security.access_file import check_secret

Row = Mapping[str, Any]
_WHAT: Final = {
    ACCOUNTS_LEVEL: "accounts in the log",
    QUOTAS_LEVEL: "quotas of accounts",
    SECRETS_LEVEL: "previous secrets of accounts",
}


def changed_accounts(ports: AccessPorts, put: Iterable[Row], delete: Iterable[str]) -> Decision:
    """The change as it is logged; no record where everything is so already.

    Raises InvalidRequest for invalid rows, ServiceNotAvailable while another one is on its way.
    """
    if ports.writer.accounts_in_log.is_changing(ACCOUNTS):
        raise ServiceNotAvailable("another change of accounts is on its way; ask again")
    table, put = ports.state.accounts, [*put]
    if put and not len(table) and not any(map(_may_be_chief, put)):
        # Without accounts any client may ask, so refuse before the cost of reading the rows.
        raise InvalidRequest(NO_ADMINISTRATOR)
    rows = [row for row in map(account_row, put) if row != table.get(row["accessKey"])]
    try:
        gone = tuple(key for key in dict.fromkeys(delete) if table.get(key) is not None)
        if not rows and not gone:
            return Decision()
        for row in rows:
            check_secret(read_account(row))
        table.check(rows, gone)
    except AccountsError as error:
        raise InvalidRequest(str(error)) from None
    change = AccountsChanged(tuple(rows), gone)
    mark = _mark(ports, level_of_accounts(rows))
    return Decision((change,) if mark is None else (mark, change))


def _mark(ports: AccessPorts, level: int) -> LevelRaised | None:
    """The level mark that must be in the log before these rows (R28); None if it is there."""
    log, state = ports.log, ports.state
    peers_prove = ports.config.cluster_secret is not None
    if not len(state.accounts) and log.driver.roster.levels() and not peers_prove:
        raise InvalidRequest(
            "accounts in a group of several nodes need broker.cluster_secret, the same on "
            "each: without it everybody can say to be a node; set it and restart them"
        )
    return level_mark(log, state, level, _WHAT[level])


def _may_be_chief(row: Row) -> bool:
    return row.get("admin") is True and row.get("status") in (None, "enable")


def account_row(row: Row) -> dict[str, Any]:
    """A row in the one form that the log has (account_rows.py). Raises InvalidRequest."""
    try:
        return logged_row(row)
    except AccountsError as error:
        raise InvalidRequest(str(error)) from None
