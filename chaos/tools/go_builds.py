"""The environment of builds with Go: one cache for all, so that each package is compiled once.

Go ships its own library as source. Compiling it takes longer than the programs that are built here,
and programs share a cache only when they agree on the folder and on whether C is used. C is not: no
program here needs it, and its part of the library takes a C compiler and more time.
"""

from __future__ import annotations

import os
from pathlib import Path

CACHE = Path(__file__).resolve().parents[2] / ".tools" / "cache" / "go"


def environment(cache: Path = CACHE, **more: str) -> dict[str, str]:
    """For `go build` and `go install`: ours, with `more`; downloads and results go to `cache`."""
    return {
        **os.environ,
        "GOPATH": str(cache),
        "GOCACHE": str(cache / "build"),
        # Modules can be deleted again; a program needs no note of our commit.
        "GOFLAGS": "-buildvcs=false -modcacherw",
        "CGO_ENABLED": "0",
        **more,
    }
