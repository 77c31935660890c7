"""When a send is acknowledged, as requests, topic attributes and settings name it.

The levels are the log's own (dledger/producers/durability.py says what each risks).
"""

from __future__ import annotations

from dledger.producers.durability import Durability as Durability
from dledger.producers.durability import durability_of as durability_of
