"""Under `python -O` a node would run without its safety assertions, so it does not start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys
from pathlib import Path
from dledger.errors import NodeFailed, NotFormatted
from dledger.log.node_storage import open_node
try:
    open_node(Path("nowhere"), cluster_id="c", group="g", node_id="n0", clock=lambda: 0.0)
except (NodeFailed, NotFormatted) as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [([], "NotFormatted"), (["-O"], "NodeFailed assertions"), (["-OO"], "NodeFailed assertions")],
)
def test_a_node_refuses_to_start_without_assertions(flags: list[str], wanted: str) -> None:
    command = [sys.executable, *flags, "-c", SCRIPT]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.startswith(wanted)
