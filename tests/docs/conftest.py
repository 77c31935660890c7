"""A network and a desk for each module of pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .desk import Desk
from .own_network import own_network


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """One for all tests of a module; a cluster that `dledger up` started there ends with it."""
    with own_network() as network:
        made = Desk(tmp_path_factory.mktemp("desk"), network)
        try:
            yield made
        finally:
            made.type("dledger down")
