"""Tables of records that came with a feature level: accounts, and settings of the log.

Below its level a record is passed over, as a node of the version before passes it over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cluster.core.access.account_table import AccountTable
from cluster.core.access.accounts import PREVIOUS_SECRET
from cluster.core.access.quota import FIELDS as QUOTA_FIELDS
from cluster.core.feature_level import (
    ACCOUNTS_LEVEL,
    QUOTAS_LEVEL,
    SECRETS_LEVEL,
    SETTINGS_LEVEL,
    FeatureLevel,
)
from cluster.core.internal_topics import AccountsChanged, LevelRaised, StateChange
from cluster.core.live_settings import SettingsChanged, SettingsTable


def level_of_accounts(rows: Iterable[Mapping[str, Any]]) -> int:
    """The feature level that rows of accounts need."""
    rows = [*rows]
    if any(PREVIOUS_SECRET in row for row in rows):
        return SECRETS_LEVEL
    has_quota = any(not row.keys().isdisjoint(QUOTA_FIELDS) for row in rows)
    return QUOTAS_LEVEL if has_quota else ACCOUNTS_LEVEL


class LeveledTables:
    """Part of a broker's state."""

    def __init__(self) -> None:
        self.level = FeatureLevel()
        self.accounts = AccountTable()
        self.settings = SettingsTable()

    def replay(self, change: StateChange) -> bool:
        """False: the change is of another table. Raises UpgradeNeeded."""
        if isinstance(change, LevelRaised):
            self.level.replay(change.level)
        elif isinstance(change, AccountsChanged):
            if self.level.value >= level_of_accounts(change.put):
                self.accounts.replay(change.put, change.delete)
        elif isinstance(change, SettingsChanged):
            if self.level.value >= SETTINGS_LEVEL:
                self.settings.replay(change)
        else:
            return False
        return True

    def to_checkpoint(self) -> dict[str, Any]:
        """Tables that are empty are left out, as in checkpoints of earlier versions."""
        found: dict[str, Any] = {"level": self.level.value}
        if len(self.accounts):
            found["accounts"] = self.accounts.logged()
        if self.settings.values:
            found["settings"] = self.settings.values
        return found

    def restore(self, value: Mapping[str, Any]) -> None:
        """Take the tables of a checkpoint; its level was taken over before."""
        self.accounts.restore(value.get("accounts", ()))  # not in those of earlier versions
        self.settings.restore(value.get("settings", {}))
