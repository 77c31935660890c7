"""When a send is acknowledged, as requests, topic attributes and settings name it.

The levels are the log's own (dledger/durability.py says what each risks).
"""

from __future__ import annotations

from dledger.durability import Durability as Durability
from dledger.durability import durability_of as durability_of
