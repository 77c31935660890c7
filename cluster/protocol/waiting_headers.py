"""31017: messages that wait, delayed ones and halves of transactions."""

from __future__ import annotations

from dataclasses import dataclass

DELAYED = "delayed"
TRANSACTIONS = "transactions"
KINDS = (DELAYED, TRANSACTIONS)


@dataclass(frozen=True, slots=True)
class ListWaitingRequest:
    """`kind`: one of KINDS; those at the address `begin` or behind it, at most `max_num`."""

    kind: str
    begin: int = 0
    max_num: int = 50
    bname: str | None = None
