"""Owner of a producer id (`__PID`): the account that first stored a message under it.

    message of an id that nobody owns ─► ProducerOwned(id, account) ─┬► this turn's batch, in order
                                         the message itself          ─┘
    message of an id that another account owns                      ─► Unauthorized

The record is an entry of the log, so every replica knows owners from the log alone, and a message
is stored as it came: nothing is added to it. Numbers are compared only for the owner. Without that,
who guesses or reads a producer id could use up its next numbers: the producer's own messages would
be taken for repeats, acknowledged and not stored.

In force where accounts are. Without accounts all senders count as one: ids get no owner, and every
sender may use them. An id that was used before accounts were in force (or before this version)
belongs to the first account that stores a message under it now. Senders from an address that needs
no account are one owner, "".

The table of producers forgets an owner together with the id's numbers, never one without the other.
It makes space at the cost of the account that has most ids there, and an id that is pushed out
while a message of it is on the way stays its owner's (dledger/producers/owners.py).
"""

from __future__ import annotations

from cluster.broker.kernel.write.own_records import Done
from cluster.broker.kernel.write.state_writer import StateWriter
from cluster.core.internal_topics import ProducerOwned
from cluster.errors import Unauthorized
from cluster.security.access_file import Access
from dledger.producers.table import ProducerTable


class Owners:
    """Used on a leader. `access`: are senders known by accounts here now?"""

    def __init__(self, table: ProducerTable, writer: StateWriter, access: Access) -> None:
        self._table, self._writer, self._access = table, writer, access
        #: Producer id → changes that are logged and not applied yet, oldest first.
        self._coming: dict[str, list[ProducerOwned]] = {}

    def owner(self, producer: str) -> str | None:
        """The id's owner, uncommitted changes included; None: it has no owner."""
        coming = self._coming.get(producer)
        return coming[-1].owner if coming else self._table.owner(producer)

    def check(self, producer: str, sender: str) -> None:
        """Check that `sender` may use the id; the error tells another account no more than that.

        Raises Unauthorized.
        """
        if self._access.is_on and self.owner(producer) not in (None, sender):
            raise Unauthorized(
                f"the producer id {producer} belongs to another account; draw a new id, or take "
                "it over if this account may (takeOverProducers)"
            )

    def claim(self, producer: str, sender: str) -> None:
        """Make `sender` the owner of an id without one, after `check`. Raises QueueFull."""
        if self._access.is_on and self.owner(producer) is None:
            self._log(ProducerOwned(producer, sender), _nobody_waits)

    def take_over(self, producer: str, sender: str, done: Done) -> None:
        """Make `sender` the owner from here on; an unknown id stays unknown. Raises QueueFull.

        Whatever was decided about the id before (`SendTarget`) must be decided anew.
        """
        known = producer in self._coming or producer in self._table
        if not self._access.is_on or not known or self.owner(producer) == sender:
            done(None)
        else:
            self._log(ProducerOwned(producer, sender), done)

    def leadership_ended(self) -> None:
        """Forget changes on their way: the table has the logged ones when the next leadership
        begins.
        """
        self._coming.clear()

    def _log(self, change: ProducerOwned, done: Done) -> None:
        """Log it in this turn's batch; `done` is called when the table has it."""

        def ended(error: Exception | None) -> None:
            coming = self._coming.get(change.producer, [])
            coming[:] = [other for other in coming if other is not change]
            if not coming:
                self._coming.pop(change.producer, None)
            done(error)

        self._writer.write(change, ended)
        self._coming.setdefault(change.producer, []).append(change)


def _nobody_waits(error: Exception | None) -> None:
    """The first message stands behind the record, in the same batch, and tells how both ended."""
