"""The feature level: which kinds of records this version understands, and the log may hold.

    level 0     every kind of internal_topics.py but those below, and of the deferred folds
    level 1     rmq_sys_dledger_accounts
    level 2     rmq_sys_dledger_settings, and quotas in rows of accounts
    level 3     previous secrets in rows of accounts
    a mark      {"level":n} in rmq_sys_dledger_levels: kinds of level n may follow

The mark is written by the first change that needs it, never by an upgrade alone, so that a group
can go back to the version before until then. Which level a member understands it says in each hello
(dledger/membership/handshake.py).

A version that adds a kind, or a field that changes state, raises LEVEL, and a leader writes it only
behind a mark of that level, which it writes when every member of the group understands it. A node
that meets a higher mark than its own level stops there: passing over what it cannot read would make
its state another one than that of the other replicas, without a word (R28). Logs without a mark are
of level 0, also those that earlier versions wrote.
"""

from __future__ import annotations

from typing import Final

from dledger.errors import NodeFailed

LEVEL: Final = 3
"""The highest level that this version understands."""

ACCOUNTS_LEVEL: Final = 1
"""Of accounts in the log."""
SETTINGS_LEVEL: Final = 2
"""Of settings in the log."""
QUOTAS_LEVEL: Final = 2
"""Of quotas in rows of accounts."""
SECRETS_LEVEL: Final = 3
"""Of previous secrets in rows of accounts."""

LEVEL_MAX: Final = 1_000_000


class UpgradeNeeded(NodeFailed):
    """The log, or a state, says that it holds records which this version does not understand."""

    advice = "install the version that the other nodes of the group run, then start this node again"

    def __init__(self, level: int, known: int) -> None:
        super().__init__(
            f"the log of this group is at feature level {level} and this version understands "
            f"{known}; upgrade this node"
        )


class FeatureLevel:
    """`value`: of the newest mark that was applied; `known`: the node's own level."""

    def __init__(self) -> None:
        self.value, self.known = 0, LEVEL

    def replay(self, level: int) -> None:
        """The log says so here; a lower mark is ignored. Raises UpgradeNeeded."""
        if level > self.known:
            raise UpgradeNeeded(level, self.known)
        self.value = max(self.value, level)
