"""The feature level: which kinds of records this version understands, and the log may hold.

    level 0     every kind of internal_topics.py and of the deferred folds
    a mark      {"level":n} in rmq_sys_dledger_levels: kinds of level n may follow

A version that adds a kind, or a field that changes state, raises LEVEL, and a leader writes it only
behind a mark of that level, which it writes when every member of the group understands it. A node
that meets a higher mark than its own level stops there: passing over what it cannot read would make
its state another one than that of the other replicas, without a word (R28). Logs without a mark are
of level 0, also those that earlier versions wrote.
"""

from __future__ import annotations

from typing import Final

from dledger.errors import NodeFailed

LEVEL: Final = 0
"""The highest level that this version understands."""

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

    def raised(self, level: int) -> None:
        """The log says so here; a lower mark is ignored. Raises UpgradeNeeded."""
        if level > self.known:
            raise UpgradeNeeded(level, self.known)
        self.value = max(self.value, level)
