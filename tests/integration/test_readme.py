"""The README's examples run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from cluster.local.launcher import LocalCluster

ROOT = Path(__file__).resolve().parents[2]


def examples() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.S)


def test_the_client_example_runs(local_cluster: LocalCluster) -> None:
    found = subprocess.run(
        [sys.executable, "-c", examples()[0]],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        env={**os.environ, "NAMESRV_ADDR": local_cluster.nameserver},
    )
    assert found.returncode == 0, found.stderr
    receipt, message = found.stdout.splitlines()
    assert re.fullmatch(r"\d+ \d+", receipt)
    assert message == "b'17 pears' ['o-17']"


def test_every_file_it_names_exists() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text)
    named = re.findall(r"`((?:tests|chaos|cluster|dledger|conf|scripts)/[\w/.]*)`", text)
    assert links
    missing = [name for name in [*links, *named] if not (ROOT / name).exists()]
    assert not missing, missing
