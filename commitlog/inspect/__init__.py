"""The read-only viewer: what is in a store, is it whole, and its derived files made anew.

`main(argv)` is `dledger inspect`. See README.md.
"""

from __future__ import annotations

from commitlog.inspect.command import main

__all__ = ["main"]
