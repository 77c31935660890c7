"""The accounts that the log has: rows in the shape of plain_acl.yml, changed by its records alone.

Secrets are in the rows as they are: RocketMQ's signature is an HMAC, which takes the secret itself
to check.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from cluster.core.access.account_rows import row_size
from cluster.core.access.accounts import PREVIOUS_SECRET, Account, AccountsError, read_account

ACCOUNTS_MAX = 10_000
TABLE_BYTES_MAX = 16 * 1024 * 1024
"""Of all rows, which every checkpoint holds."""

NO_ADMINISTRATOR = (
    "no administrator would be left among the accounts of the log; create an enabled account with "
    "admin: true first, or in the same import"
)

Row = Mapping[str, Any]


class AccountTable:
    """Access key → row, and the account that it says. `accounts` is a new object at each change."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}
        self._sizes: dict[str, int] = {}
        self.accounts: dict[str, Account] = {}
        self._watchers: list[Callable[[], None]] = []

    def watch(self, changed: Callable[[], None]) -> None:
        """Have `changed` called behind every change, as long as the table is there."""
        self._watchers.append(changed)

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: str) -> Row | None:
        """The row of an access key."""
        return self._rows.get(key)

    def rows(self) -> list[Row]:
        """By access key."""
        return [self._rows[key] for key in sorted(self._rows)]

    def logged(self) -> list[Row]:
        """The rows that a checkpoint keeps."""
        return [*self._rows.values()]

    def replay(self, put: Iterable[Row], delete: Iterable[str]) -> None:
        """The rows were read before. An AccountsError leaves the table as it is."""
        self._apply(put, delete, self._rows, self._sizes, self.accounts)

    def restore(self, rows: Iterable[Row]) -> None:
        """Take the rows of a checkpoint. An AccountsError leaves the table as it is."""
        self._apply(rows, (), {}, {}, {})

    def _apply(
        self,
        put: Iterable[Row],
        delete: Iterable[str],
        rows: Mapping[str, Row],
        sizes: Mapping[str, int],
        accounts: Mapping[str, Account],
    ) -> None:
        rows, sizes, accounts = dict(rows), dict(sizes), dict(accounts)
        for row in put:
            account = read_account(row)
            rows[account.access_key] = dict(row)
            sizes[account.access_key] = row_size(row)
            accounts[account.access_key] = account
        for table in (rows, sizes, accounts):
            for key in delete:
                table.pop(key, None)
        self._rows, self._sizes, self.accounts = rows, sizes, accounts
        for changed in self._watchers:
            changed()

    def check(self, put: Collection[Row], delete: Collection[str]) -> None:
        """An enabled administrator would be left, and no more than fits. Raises AccountsError."""
        changed = {account.access_key: account for account in map(read_account, put)}
        sizes = {**self._sizes, **{str(row["accessKey"]): row_size(row) for row in put}}
        left = {**self.accounts, **changed}
        for key in delete:
            left.pop(key, None)
            sizes.pop(key, None)
        if (size := sum(sizes.values())) > TABLE_BYTES_MAX:
            raise AccountsError(
                f"all accounts would take {size} bytes and {TABLE_BYTES_MAX} are the limit; use "
                "patterns or defaults, or delete some"
            )
        if len(left) > ACCOUNTS_MAX:
            raise AccountsError(f"{len(left)} accounts are too many; {ACCOUNTS_MAX} is the limit")
        if not any(account.admin and account.enabled for account in left.values()):
            raise AccountsError(NO_ADMINISTRATOR)


def without_secret(row: Row) -> dict[str, Any]:
    """The row as administrators are shown it; `secrets`: how many count, where they are two."""
    shown = {name: row[name] for name in row if name not in ("secretKey", PREVIOUS_SECRET)}
    return {**shown, "secrets": 2} if PREVIOUS_SECRET in row else shown
