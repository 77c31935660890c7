"""The read-only viewer: prints and verifies a store, and builds its derived files anew.

`main(argv)` is `dledger inspect`. See README.md.
"""

from __future__ import annotations

from commitlog.inspect.command import main

__all__ = ["main"]
