"""A row's number, by which brokers store it once, and its unique key. No Arrow: for drivers, too.

__PID   batch/⟨query⟩/⟨partition⟩
__SEQ   batch · 2^28 + row          rows count by themselves in each queue
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

from commitlog.records.producer_numbers import BATCH_PRODUCER, BATCH_ROWS_MAX

#: Brokers know 10,000 producers, which include those of streaming queries: a write without an
#: identity, whose query has a new id each time, shares these among all its tasks.
PRODUCERS_OF_A_WRITE = 8


@dataclass(frozen=True, slots=True)
class Numbering:
    """The sender and the batch of rows: the same for every attempt of one task.

    Attributes:
        query: id of the streaming query or of the batch job.
        partition: of the task.
        batch: id of the micro-batch.
        plan: whatever decides which row goes to which queue; an attempt that was planned otherwise
            has other unique keys and is noticed by them.
    """

    query: str
    partition: int
    batch: int
    plan: str = ""

    @classmethod
    def of_a_write(cls, query: str, partition: int) -> Numbering:
        """The numbering of a task in a write without an identity. The tasks of one producer are
        published one after the other (`commit.publish`), each as a batch.
        """
        batch, slot = divmod(partition, PRODUCERS_OF_A_WRITE)
        return cls(query, slot, batch)

    @property
    def producer(self) -> str:
        """The producer id (`__PID`)."""
        return f"{BATCH_PRODUCER}{self.query.replace('-', '')}/{self.partition}"

    def sequence(self, row: int) -> int:
        """`__SEQ` of a row; rows count by themselves in each queue."""
        return self.batch * BATCH_ROWS_MAX + row

    def key_head(self, queue: str) -> str:
        """The first 24 digits of UNIQ_KEY of this batch's rows in a queue."""
        text = f"{self.query}/{self.partition}/{self.plan}/{queue}".encode()
        return f"{blake2b(text, digest_size=8).hexdigest()}{self.batch & 0xFFFFFFFF:08x}"

    def key(self, queue: str, row: int) -> str:
        """UNIQ_KEY of one row."""
        return f"{self.key_head(queue)}{row:08x}"
