"""`vote-then-power-loss`: a node grants a vote, loses its power at once, and is asked again.

    hand-over ─► voter grants candidate C in term T and dies ─► power cut ─► hard state on its disk
              ─► voter alone is started; as a third node we ask it for its vote in the same term T

The vote must stand: on the disk, and in the answer. A forgotten one is told as `broken`, which
makes the run invalid; it is looked for where it can be seen and not left to a lucky second leader.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from chaos.drivers import power, regions
from chaos.drivers.hooks import ask
from chaos.drivers.stage import Stage
from chaos.drivers.stand_in import StandIn, hard_state_on_disk
from chaos.drivers.steps import all_back, elect, on, roles
from chaos.live import failpoints, node_hooks
from dledger.core.messages import VoteReply, VoteRequest
from dledger.core.types import EntryId, Index, NodeId, Term
from dledger.membership.handshake import Member

DEATHS_MAX = 4  # a voter may die as it refuses, or answers a rehearsal: then once more
GROUP = "default"  # that RaftConfig names by default
FAR_AHEAD = 1 << 40  # a log that nobody's is ahead of: the vote alone decides


@dataclass(frozen=True, slots=True)
class Vote:
    """`voter` let `candidate` have its vote in `term`."""

    voter: str
    candidate: str
    term: int


async def vote_then_power_loss(stage: Stage) -> str:
    """Returns "" unless a vote was granted and the same question was answered after a power cut."""
    assert stage.disks is not None, "only where there are loop disks"
    _, (voter, *_) = await roles(stage)
    with stage.majority_whole():  # but for the voter all run, until it is asked alone
        vote = await _granted(stage, voter)
        if vote is None:
            return ""
        (cut,) = await power.cut(on(stage, voter, 0.0))
    kept = _kept_on_disk(stage, vote)
    reply = await _asked_again(stage, vote)
    for node in stage.nodes:  # all of them, before the first is waited for: one is no majority
        if not stage.running(node):
            await stage.start(node)
    await all_back(stage)
    if reply is None:
        return ""
    if reply.granted:
        told = f"{vote} and let another one have it after a power cut"
        stage.notes["broken"] = f"{stage.notes.get('broken', '')}{told}"
    return (
        f"{voter} died after it voted for {vote.candidate} in term {vote.term}; {cut}; {kept}; "
        f"asked again in term {reply.request_term} it {'granted' if reply.granted else 'refused'}"
    )


async def _granted(stage: Stage, voter: str) -> Vote | None:
    """Until it died right after it had granted a vote; None when it never did."""
    folder = stage.folder(voter)
    hit, said = folder / failpoints.HIT_FILE, folder / failpoints.MESSAGE_FILE
    for _ in range(DEATHS_MAX):
        hit.unlink(missing_ok=True)
        try:
            await ask(stage, voter, failpoint={"name": "send.VoteReply.after", "after": 0})
            stood = await elect(stage, voter, lambda: hit.exists() and not stage.running(voter))
        finally:
            node_hooks.forget(folder)
        if not stood:
            return None
        reply = json.loads(said.read_text())
        if reply["granted"] and not reply["pre"]:
            return Vote(voter, reply["to"], reply["request_term"])
        await all_back(stage)
    return None


def _kept_on_disk(stage: Stage, vote: Vote) -> str:
    """Compares the disk after the cut with the vote, in words; a difference is noted as
    "broken".
    """
    found = hard_state_on_disk(regions.log_folder(stage.folder(vote.voter) / "data"))
    if found is None or (found.term, found.voted_for) != (vote.term, vote.candidate):
        stage.notes["broken"] = f"{vote}; after a power cut its disk says {found}; "
        return f"its disk says {found}"
    return "its disk has the vote"


async def _asked_again(stage: Stage, vote: Vote) -> VoteReply | None:
    """Asks the voter alone for the same vote again. The other nodes are stopped, and a stand-in
    asks in the name of the third one."""
    others = [node for node in stage.nodes if node != vote.voter]
    other = next(node for node in others if node != vote.candidate)
    await stage.kill(others)
    profile = stage.arena.cluster.profile
    life = hard_state_on_disk(regions.log_folder(stage.folder(other) / "data"))
    assert life is not None, "it was not hit"
    me = Member(profile.cluster_id, GROUP, NodeId(other), life.incarnation, named=True)
    await stage.start(vote.voter)
    request = VoteRequest(
        me.node_id, Term(vote.term), EntryId(Term(vote.term), Index(FAR_AHEAD)), False, True
    )
    secret = profile.settings.get("raft.secret", "").encode() or None
    async with StandIn(me, profile.member(other).peer, secret) as stand_in:
        return await stand_in.ask(vote.voter, profile.member(vote.voter).peer, request)
