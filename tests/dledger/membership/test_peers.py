"""S7, R6: a wiped node does not pass for the one that it was."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from commitlog.files.system import OS_FILES
from dledger import NodeFailed
from dledger.core.messages import Heartbeat, Message, VoteRequest
from dledger.core.types import EntryId, Index, NodeId, Term
from dledger.membership.incarnations import FILE_NAME, KnownPeers, read_known
from tests.dledger.runtime.group import Group, until

N1 = NodeId("n1")


def test_the_first_incarnation_is_remembered_across_restarts(tmp_path: Path) -> None:
    known = KnownPeers(OS_FILES, tmp_path)
    assert known.vouch(N1, 5) is None
    assert known.vouch(N1, 5) is None
    again = KnownPeers(OS_FILES, tmp_path)
    assert again.vouch(N1, 5) is None
    sentence = again.vouch(N1, 6)
    assert sentence is not None
    assert "formatted again" in sentence


@pytest.mark.parametrize("text", ["", "[]", '{"n1": "x"}', "{"])
def test_a_file_that_is_no_list_of_peers_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    with pytest.raises(NodeFailed, match=FILE_NAME):
        KnownPeers(OS_FILES, tmp_path)
    assert (tmp_path / FILE_NAME).read_text() == text, "left untouched"


def test_one_bit_that_flips_names_no_other_peer_or_incarnation(tmp_path: Path) -> None:
    """A wiped peer would pass for its former self, or a whole one would be refused."""
    written = KnownPeers(OS_FILES, tmp_path)
    for name, incarnation in ("n1", 8071523990012), ("n2", 5550012345):
        assert written.vouch(NodeId(name), incarnation) is None
    path = tmp_path / FILE_NAME
    data, refused = path.read_bytes(), 0
    for place in range(8 * len(data)):
        harmed = bytearray(data)
        harmed[place // 8] ^= 1 << place % 8
        path.write_bytes(harmed)
        try:
            found = read_known(OS_FILES, tmp_path)
        except NodeFailed:
            refused += 1
            continue
        assert written.met.items() <= found.items(), bytes(harmed)
    assert refused > 4 * len(data)


def test_a_file_of_a_former_release_is_read_and_gets_its_checksum(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_text(json.dumps({"n1": 5, "n2": 6}, sort_keys=True, indent=1))
    assert KnownPeers(OS_FILES, tmp_path).vouch(N1, 5) is None
    ours = json.loads(path.read_text())
    assert len(ours) == 3, "a checksum in a row of its own"
    assert all(type(number) is int for number in ours.values()), "former releases take no other"
    path.write_text(json.dumps({**ours, "n3": 7}, sort_keys=True, indent=1))  # one of them goes on
    known = KnownPeers(OS_FILES, tmp_path)
    assert known.met == {"n1": 5, "n2": 6, "n3": 7}
    path.write_bytes(path.read_bytes().replace(b'"n3": 7', b'"n3": 6'))
    with pytest.raises(NodeFailed, match=FILE_NAME):
        KnownPeers(OS_FILES, tmp_path)


async def test_a_wiped_node_is_refused_and_the_others_go_on(group: Group) -> None:
    await group.start()
    log = await group.leader()
    wiped = group.followers()[0].config.node_id
    leading = log.driver
    assert leading is not None
    await until(lambda: wiped in leading.incarnations)  # it may lead by the other one's vote
    await group.stop(wiped)
    shutil.rmtree(Path(group.configs[wiped].data_dir))
    await group.start(wiped)  # formats it again, as a careless script would
    driver = group.logs[wiped].driver
    assert driver is not None
    lane = f"{log.config.node_id}/control"
    await until(lambda: "formatted again" in driver.transport.status()[lane].error)
    assert await log.append(b"the other two are enough") > 0
    assert not group.logs[wiped].is_leader


@pytest.mark.parametrize("kind", ["heartbeat", "vote", "pre-vote"])
async def test_an_absurd_term_moves_no_node(
    group: Group, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    """A node whose state is damaged, or somebody who speaks for it, says term 2^62."""
    await group.start()
    log = await group.leader()
    absurd = Term(1 << 62)
    liar = group.followers()[0]
    name = NodeId(liar.config.node_id)
    message: Message = {
        "heartbeat": Heartbeat(name, absurd, Index(-1), 1),
        "vote": VoteRequest(name, absurd, EntryId(absurd, Index(1 << 40)), False, True),
        "pre-vote": VoteRequest(name, absurd, EntryId(absurd, Index(1 << 40)), True),
    }[kind]
    for other in group.logs.values():
        if other is not liar:
            liar.driver.transport.send(NodeId(other.config.node_id), message)
    await until(lambda: caplog.text.count("a number that no log reaches") == 2)
    assert await log.append(b"the group goes on") > 0
    terms = [one.driver.replica.node.term for one in group.logs.values() if one.driver]
    assert max(terms) < 1 << 32
    await until(lambda: len({one.driver.replica.node.term for one in group.logs.values()}) == 1)
