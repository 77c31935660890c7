"""A shipping node whose locks end after 3 s, not after 60 as RocketMQ's, so that a test sees it.

Members of the group trust theirs for half of that, as with the real numbers.
"""

from __future__ import annotations

import sys

from cluster.core import locks
from cluster.local.node_main import main

LEASE_SECONDS = 3.0
TRUSTED_SECONDS = LEASE_SECONDS / 2
RENEW_SECONDS = LEASE_SECONDS / 6

if __name__ == "__main__":
    locks.LEASE_SECONDS = LEASE_SECONDS
    sys.exit(main())
