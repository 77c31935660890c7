"""The example of dledger/README.md is short, is run, and does what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.waiting import limit

# What a node allocates is 1 GiB and more by default; the example says nothing about it.
SMALL_FILES = """
import functools, dledger
dledger.RaftConfig = functools.partial(
    dledger.RaftConfig, data_file_size=4 << 20, index_file_size=32 * 20_000, entry_size_max=1 << 20
)
"""

README = Path(__file__).parents[2] / "dledger" / "README.md"


def test_the_example_runs_as_it_stands(tmp_path: Path, new_address: Callable[[], str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line for line in code.splitlines() if line.strip()]
    assert len(lines) < 30
    host = new_address()  # its ports, on an address of this test's own
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", SMALL_FILES + code.replace("127.0.0.1", host)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=limit(60),
        env={"PYTHONPATH": str(README.parents[1])},
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    index, term, body = ended.stdout.splitlines()[-1].split(maxsplit=2)
    assert (int(index) >= 1, int(term) >= 1, body) == (True, True, "b'hello'")
