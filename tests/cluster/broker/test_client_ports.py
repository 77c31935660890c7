"""What stops a node stops it at its start, also one that opens its ports later."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from .conftest import MakeBrokers


async def test_certificates_that_cannot_be_used_stop_the_start_of_a_node_that_comes_back(
    make_brokers: MakeBrokers, tmp_path: Path
) -> None:
    """Not its part in the group, seconds later: its vote would be lost for a client port."""
    async with make_brokers(3) as brokers:
        follower = await brokers.follower()
        number = brokers.nodes.index(follower)
        await brokers.stop_node(number)
        broken = tmp_path / "broken.pem"
        broken.write_text("no certificate")
        brokers.settings = {
            **brokers.settings,
            "tls_mode": "permissive",
            "tls_certificate": str(broken),
            "tls_key": str(broken),
        }
        with pytest.raises(ssl.SSLError):
            await brokers.start_node(number)
