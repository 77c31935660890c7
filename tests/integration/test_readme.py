"""The README's examples run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from cluster.client import connect
from cluster.local.launcher import LocalCluster
from tests.waiting import limit

ROOT = Path(__file__).resolve().parents[2]


def examples(readme: str = "README.md") -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / readme).read_text("utf-8"), re.S)


def run(example: str, local_cluster: LocalCluster) -> str:
    found = subprocess.run(
        [sys.executable, "-c", example],
        capture_output=True,
        text=True,
        timeout=limit(60),
        cwd=ROOT,
        env={**os.environ, "NAMESRV_ADDR": local_cluster.nameserver},
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_the_client_example_runs(local_cluster: LocalCluster) -> None:
    receipt, message = run(examples()[0], local_cluster).splitlines()
    assert re.fullmatch(r"\d+ \d+", receipt)
    assert message == "b'17 pears' ['o-17']"


async def test_the_example_with_delays_and_transactions_runs(local_cluster: LocalCluster) -> None:
    example = examples("cluster/client/README.md")[0]
    topic = "delays-and-transactions"
    assert '"orders"' in example
    run(example.replace('"orders"', f'"{topic}"'), local_cluster)
    async with connect(local_cluster.nameserver) as mq, mq.reader(topic) as reader:
        found = [await reader.receive(5.0) for _ in range(2)]
    bodies = sorted(message.body for message in found if message is not None)
    assert bodies == [b"good morning", b"paid"]


def test_the_example_with_messages_that_fail_runs(local_cluster: LocalCluster) -> None:
    example = examples("cluster/client/README.md")[1]
    *rows, dead = run(example, local_cluster).splitlines()
    assert any(re.fullmatch(r"invoices 0 wait, the oldest for 0.0 s", row) for row in rows)
    assert dead == "b'no amount'"


def test_the_example_with_a_request_runs(local_cluster: LocalCluster) -> None:
    example = examples("cluster/client/README.md")[2]
    assert run(example, local_cluster) == "b'HOW MUCH?'\n"


def test_every_file_it_names_exists() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text)
    named = re.findall(r"`((?:tests|chaos|cluster|dledger|conf|scripts)/[\w/.]*)`", text)
    assert links
    missing = [name for name in [*links, *named] if not (ROOT / name).exists()]
    assert not missing, missing
