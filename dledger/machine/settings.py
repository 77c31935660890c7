"""Settings of one node's machine; each node may have its own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MachineSettings:
    """How commands are sent; times in seconds. Rules that all nodes share are in the machine."""

    #: A command without a result ends with an error after so long, unless its caller says else.
    propose_seconds: float = 10.0
    #: One that is not applied here after so long is sent again, in case it was lost on the way.
    #: Less: more is sent twice under load, and applied once. More: longer pauses after a fault.
    resend_seconds: float = 1.0
    #: A turn of applying that keeps the event loop for longer is told in the node's log, and to who
    #: follows `slow_applies`.
    apply_seconds_max: float = 0.1
    #: As leader, this node takes commands while it has at most so many committed entries to apply;
    #: then it refuses with MachineBehind, and nodes try again until the command's time is over.
    #: More: longer bursts that a slow machine catches up with; costs memory and the time of reads.
    apply_waiting_max: int = 16_384
    #: The same in bytes of the log.
    apply_waiting_bytes_max: int = 64 << 20
    #: Bytes of this node's commands without a result; above it `propose` raises QueueFull.
    proposed_bytes_max: int = 256 << 20

    #: Files of the log that are kept behind the newest state, for nodes that lag a little: more
    #: costs disk, less has them sent the whole state sooner.
    margin_files: int = 1

    #: A state is written so long after a command that the last state lacks, not only where a log
    #: file begins. Less: restarts apply fewer entries again; each writes the whole state. 0: off.
    state_seconds: float = 0.0
    #: A state is written no faster, so that the disk has time for the log: by a quarter of it, and
    #: by all of it for as many bytes as the log grew by since. So one of a GiB takes 16 to 64 s.
    #: Log files that begin meanwhile have no state. A node that is closed waits for no rests.
    #: More: states are done sooner, commands wait longer meanwhile. 0: as fast as it goes.
    state_bytes_per_second: int = 64 << 20

    def validate(self) -> None:
        """Raise ValueError with a sentence for a value that cannot work."""
        for name in (
            "propose_seconds",
            "resend_seconds",
            "apply_seconds_max",
            "apply_waiting_max",
            "apply_waiting_bytes_max",
            "proposed_bytes_max",
        ):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} {getattr(self, name)} must be above 0")
        for name in ("margin_files", "state_seconds", "state_bytes_per_second"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} {getattr(self, name)} must be 0 or more")
