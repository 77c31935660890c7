"""A stand-in asks a real replica for its vote; a replica that forgot one is found out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from chaos.drivers.stand_in import StandIn, hard_state_on_disk
from commitlog.files.system import OS_FILES
from dledger.core.messages import VoteReply, VoteRequest
from dledger.core.types import EntryId, HardState, Index, NodeId, Term
from dledger.durable.hard_state import HardStateFile
from dledger.membership.handshake import Member
from tests.dledger.runtime.group import Group

FAR = Index(1 << 40)


@pytest_asyncio.fixture(params=[None, "one that the group has"], ids=["open", "secret"])
async def group(
    tmp_path: Path, new_address: Callable[[], str], request: pytest.FixtureRequest
) -> AsyncIterator[Group]:
    """All three had a leader once; now n1 runs alone."""
    made = Group(tmp_path, new_address)
    for name in list(made.configs):
        made.change(name, secret=request.param)
    await made.start()
    await made.leader()
    await made.close()
    await made.start("n1")
    yield made
    await made.close()


def folder(group: Group, name: str) -> Path:
    return Path(group.configs[name].data_dir)


async def ask(group: Group, name: str, term: int) -> VoteReply | None:
    """As the node `name`, of n1."""
    state = hard_state_on_disk(folder(group, name))
    assert state is not None
    config = group.configs[name]
    me = Member(config.cluster_id, config.group, NodeId(name), state.incarnation, named=True)
    addresses = {peer: f"{host}:{port}" for peer, (host, port) in config.peers.items()}
    request = VoteRequest(me.node_id, Term(term), EntryId(Term(term), FAR), False, True)
    secret = None if config.secret is None else config.secret.encode()
    async with StandIn(me, addresses[name], secret) as stand_in:
        return await stand_in.ask("n1", addresses["n1"], request)


def voted(group: Group) -> tuple[int, str | None]:
    found = hard_state_on_disk(folder(group, "n1"))
    assert found is not None
    return found.term, found.voted_for


@pytest.mark.timeout(60)
async def test_a_vote_is_kept_and_a_forgotten_one_is_seen(group: Group) -> None:
    term = voted(group)[0] + 1
    first = await ask(group, "n2", term)
    assert first is not None
    assert first.granted
    assert voted(group) == (term, "n2")

    again = await ask(group, "n0", term)
    assert again is not None
    assert (again.granted, again.request_term) == (False, term)

    await group.stop("n1")
    own = hard_state_on_disk(folder(group, "n1"))
    assert own is not None
    _forget_vote(folder(group, "n1"), term - 1, own.incarnation)
    await group.start("n1")
    bad = await ask(group, "n0", term)
    assert bad is not None
    assert bad.granted  # what the course tells as broken


@pytest.mark.timeout(60)
async def test_who_was_asked_follows_as_before(group: Group) -> None:
    """The stand-in leaves nothing behind: the node that it spoke for is heard."""
    term = voted(group)[0] + 1
    for name in ("n2", "n0"):
        assert await ask(group, name, term) is not None
    await group.start("n0")
    await group.leader()


def _forget_vote(path: Path, term: int, incarnation: int) -> None:
    state = HardState(Term(term), None, incarnation)
    HardStateFile.create(OS_FILES, path, state, staging=path / "staging").close()
