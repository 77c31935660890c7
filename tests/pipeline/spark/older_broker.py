"""A shipping node that has no raw ranges while $OLDER_WHEN is a file, as earlier releases."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from cluster.broker.consume import raw_ranges
from cluster.errors import RequestNotSupported
from cluster.local.node_main import main
from cluster.protocol.codes import RequestCode

CODES = RequestCode.FETCH_LOG_RANGE, RequestCode.FETCH_QUEUE_RANGE


def without(code: int) -> None:
    """The handler of `code` refuses it as one of a node that has none."""
    handler = raw_ranges.ROUTES[code]

    def function(ports: Any, call: Any, request: Any) -> None:
        if Path(os.environ["OLDER_WHEN"]).exists():
            raise RequestNotSupported(f"request code {code} is not known")
        handler.function(ports, call, request)

    raw_ranges.ROUTES[code] = handler._replace(function=function)


if __name__ == "__main__":
    for code in CODES:
        without(code)
    sys.exit(main())
