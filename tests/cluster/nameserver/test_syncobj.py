"""pysyncobj changes Python's `socket` when it is imported: one module does, and takes that back."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.waiting import limit

ROOT = Path(__file__).parents[3]
PACKAGES = ("commitlog", "dledger", "cluster", "chaos", "pipeline")
ASKED = """
import socket
import cluster.nameserver.replicated_kv
import chaos.baseline.node_main
print(socket.inet_ntop(socket.AF_INET, bytes([127, 0, 0, 1])))
"""


def test_addresses_are_printed_after_its_import() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASKED], capture_output=True, text=True, timeout=limit(60)
    )
    assert (done.stdout.strip(), done.stderr) == ("127.0.0.1", "")


def test_one_module_imports_it() -> None:
    found = [
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if re.search(r"^(from|import) pysyncobj", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert found == ["cluster/nameserver/syncobj.py"]
