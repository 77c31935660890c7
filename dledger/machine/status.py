"""The work that waits for one node's machine, and its states on disk: `ReplicatedNode.status`."""

from __future__ import annotations

from typing import NamedTuple

from dledger.errors import MachineBehind
from dledger.machine.applying import Applying
from dledger.machine.proposer import Proposer
from dledger.machine.saving import Saving
from dledger.machine.states_status import StatesStatus


class MachineStatus(NamedTuple):
    """The work that waits for a node's machine, and its states.

    Attributes:
        apply_waiting: committed entries that are to be applied here; 0 once the node has stopped.
        refusal: why this node, as leader, takes no command because of them; None: it does.
        proposed: commands that were proposed here and have no result yet.
        proposed_bytes: their bytes, which `MachineSettings.proposed_bytes_max` bounds.
        number: of the last command that was applied, counted from the log's first entry.
        states: None: the machine has no snapshots, or the node was not started.
    """

    apply_waiting: int
    refusal: MachineBehind | None
    proposed: int
    proposed_bytes: int
    number: int
    states: StatesStatus | None


def status_of(
    applying: Applying, proposer: Proposer, number: int, saving: Saving | None
) -> MachineStatus:
    """The status of a node with these parts; `number`: as `MachineStatus.number`."""
    waits = *applying.status(), proposer.waiting_count, proposer.waiting_bytes
    return MachineStatus(*waits, number, None if saving is None else saving.status())
