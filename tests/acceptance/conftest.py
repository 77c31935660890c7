"""A stopped node's folder with three data files, made once per worker; each test breaks a copy."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .frames import raw, send_fields
from .node_process import NodeProcess

TOPIC = "acceptance"
MESSAGES = 30
BODY_SIZE = 90_000


def body_of(number: int) -> bytes:
    """The body of recorded message `number`, which also is its queue offset."""
    return b"%08d" % number + bytes([65 + number % 26]) * (BODY_SIZE - 8)


@pytest.fixture(scope="session")
def recorded(
    tmp_path_factory: pytest.TempPathFactory, new_address: Callable[[], str]
) -> NodeProcess:
    """A node that was formatted, took thirty messages and stopped cleanly. Leave it as it is."""
    node = NodeProcess(tmp_path_factory.mktemp("recorded"), new_address())
    with node.running("--format"), raw(node.client) as client:
        for number in range(MESSAGES):
            answer = client.ask(310, send_fields(TOPIC), body_of(number))
            assert (answer.code, answer.ext["queueOffset"]) == (0, str(number)), answer.remark
    return node


@pytest.fixture
def node(recorded: NodeProcess, tmp_path: Path, free_address: str) -> NodeProcess:
    """A copy of `recorded`, not running, on an address of its own."""
    copy = NodeProcess(tmp_path / "n0", free_address)
    shutil.copytree(recorded.root, copy.root)
    return copy


@pytest.fixture(scope="session")
def served(
    recorded: NodeProcess, tmp_path_factory: pytest.TempPathFactory, new_address: Callable[[], str]
) -> Iterator[NodeProcess]:
    """A running copy of `recorded`, shared by a worker's tests: bad input may not hurt it."""
    copy = NodeProcess(tmp_path_factory.mktemp("served"), new_address())
    shutil.copytree(recorded.root, copy.root)
    with copy.running() as process:
        yield copy
        assert process.poll() is None, copy.output()
    assert process.returncode == 0, copy.output()
    assert "Traceback" not in copy.output()
