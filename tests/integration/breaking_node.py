"""A shipping node with one mistake in it: once $BREAK_WHEN is a file, what is applied raises."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from cluster.broker.kernel.apply.machine import BrokerMachine
from cluster.local.node_main import main
from dledger.core.types import Index

_applies = BrokerMachine.apply


def _raises(self: BrokerMachine, first: Index, last: Index) -> None:
    if Path(os.environ["BREAK_WHEN"]).exists():
        raise ValueError("a mistake of the test")
    _applies(self, first, last)


if __name__ == "__main__":
    BrokerMachine.apply = _raises  # type: ignore[method-assign]
    sys.exit(main())
