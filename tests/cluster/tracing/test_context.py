"""The context of a trace in a message's properties, and what a missing extra says."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cluster.tracing.context import Parent, parent_of, property_of
from commitlog.records.properties import decode_properties, encode_properties
from tests.waiting import limit

PARENT = Parent(0x0AF7651916CD43DD8448EB211C80319C, 0x00F067AA0BA902B7, True)
W3C = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
"""The specification's own example."""


def test_the_property_is_as_w3c_writes_it_and_is_read_again() -> None:
    for parent in (PARENT, PARENT._replace(is_sampled=False)):
        assert parent_of(b"KEYS\x01k\x02" + property_of(parent)) == parent
    assert decode_properties(property_of(PARENT)) == {"traceparent": W3C}


@pytest.mark.parametrize(
    "value",
    ["", "00", W3C[:-1], W3C.upper(), "ff" + W3C[2:], "00-" + "0" * 32 + W3C[35:], W3C + "-1"],
)
def test_what_is_no_context_is_none(value: str) -> None:
    properties = encode_properties({"KEYS": "k", **({"traceparent": value} if value else {})})
    assert parent_of(properties) is None


WITHOUT = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocker())
"""
CLIENT = "import asyncio, cluster\nfrom cluster.client import ClientConfig\n" + (
    "async def main():\n    cluster.connect('127.0.0.1:1', ClientConfig(tracing=True))\n"
    "asyncio.run(main())"
)
BROKER = "import cluster.tracing.telemetry"


@pytest.mark.parametrize("code", [CLIENT, BROKER])
def test_without_the_extra_the_error_names_it(code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT + code], capture_output=True, text=True, timeout=limit(60)
    )
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("cluster.extras.MissingExtra: opentelemetry is not installed")
    assert last.endswith("pip install 'dledger[otel]'")


def test_a_client_without_tracing_does_not_import_it() -> None:
    code = CLIENT.replace("ClientConfig(tracing=True)", "ClientConfig()")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT + code], capture_output=True, text=True, timeout=limit(60)
    )
    assert done.returncode == 0, done.stderr


def test_a_node_without_tracing_does_not_import_it() -> None:
    code = "import cluster.local.node_main, cluster.broker.wiring, cluster.broker.tracing"
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT + code], capture_output=True, text=True, timeout=limit(60)
    )
    assert done.returncode == 0, done.stderr
