"""R26: routes and start-up never wait for pysyncobj; messages never depend on it."""

from __future__ import annotations

import subprocess
import sys

import cluster.broker.node
import cluster.nameserver.server
import dledger.runtime.replicated_log
from tests.waiting import limit

WITHOUT = """
import sys
sys.modules["pysyncobj"] = None          # any import of it raises ImportError
import asyncio, tempfile
from pathlib import Path
import cluster.broker.node, cluster.client.client, dledger.runtime.replicated_log
from cluster.nameserver.kv_config import LocalKvConfig
from cluster.nameserver.server import NameServer
print("started without it")
"""


def test_name_server_broker_client_and_log_load_without_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=limit(60)
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "started without it"


def test_nothing_that_serves_has_loaded_it() -> None:
    for module in (cluster.broker.node, cluster.nameserver.server, dledger.runtime.replicated_log):
        assert not hasattr(module, "pysyncobj"), module.__name__
