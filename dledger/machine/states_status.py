"""The states of one machine on disk, as `Saving.status` tells them."""

from __future__ import annotations

from typing import NamedTuple


class StatesStatus(NamedTuple):
    """The states of one machine on this node's disk.

    Attributes:
        last: the last entry that is in the newest state, -1 for none.
        position: where in the log the newest state stands behind which the log may be cut, in
            bytes; -1 for none.
        is_due: a state by time (`MachineSettings.state_seconds`) is to be captured.
        is_written: a state is taken or written now.
    """

    last: int
    position: int
    is_due: bool
    is_written: bool
