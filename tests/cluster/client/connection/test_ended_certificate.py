"""A server whose certificate has ended: its user is told to renew it, not whom to believe."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.commands.connecting import Reach, connected
from cluster.errors import NotTrusted
from cluster.nameserver.server import NameServer
from cluster.security.certificates import Subject, make_all


async def test_a_certificate_that_has_ended_is_to_be_renewed(tmp_path: Path) -> None:
    make_all(tmp_path, [Subject("ns", ("127.0.0.1",))], days=0)
    server = NameServer(
        "127.0.0.1",
        0,
        warm_up_seconds=0,
        tls_certificate=str(tmp_path / "ns.pem"),
        tls_key=str(tmp_path / "ns.key"),
    )
    async with server:
        reach = Reach(server.address, tls=str(tmp_path / "authority.pem"))
        with pytest.raises(NotTrusted, match=r"has expired.*dledger tls renew") as found:
            async with connected(reach) as mq:
                await mq.admin().list_topics()
    assert "--tls" not in str(found.value), "whom to believe is another question"
