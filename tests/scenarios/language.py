"""The words of the stories: steps that change something, and questions that print a line.

README.md has the list. A step that a story spells wrong is an error, never a comment.
"""

from __future__ import annotations

from collections.abc import Sequence

from dledger.core import effects as fx
from dledger.core import events as ev
from dledger.core.configuration import ChangeKind
from dledger.core.messages import AppendEntries, AppendReply, Heartbeat, VoteReply, VoteRequest
from dledger.core.replication import SafetyViolation
from dledger.core.types import NO_INDEX, EntryId, Index, NodeId, Term
from tests.dledger.core.net import Net
from tests.paper.steps import begin_with, ranged, terms_of, time_out

#: What `lose` may name.
KINDS = {
    "appends": AppendEntries,
    "append-replies": AppendReply,
    "heartbeats": Heartbeat,
    "votes": VoteReply,
}


def step(net: Net, verb: str, words: list[str]) -> None:
    """One line of a story that changes something."""
    match verb, words:
        case "lead", [name]:
            net.elect(name)
        case "stand", [name]:
            time_out(net, name)
        case "stands", [name]:
            time_out(net, name, after=0.0)
        case "deliver", []:
            net.deliver()
        case "deliver", [count]:
            net.deliver(rounds=int(count))
        case "propose", [name, count]:
            net.propose(name, int(count))
        case "run", [seconds]:
            net.run(float(seconds))
        case _:
            if not _surroundings(net, verb, words) and not _group(net, verb, words):
                raise AssertionError(f"no step is called {verb} with {len(words)} words")


def _surroundings(net: Net, verb: str, words: list[str]) -> bool:
    """Network and disks."""
    match verb, words:
        case "cut", [name]:
            net.isolate(name)
        case "cut", [one, other]:
            net.cut |= {(NodeId(one), NodeId(other)), (NodeId(other), NodeId(one))}
        case "heal", []:
            net.heal()
        case "lose", ["nothing"]:
            net.drop = lambda *_: False
        case "lose", ["appends", "above", index]:
            last = int(index)
            net.drop = lambda _s, _t, m: isinstance(m, AppendEntries) and m.last > last
        case "frames", [name, count]:
            net.nodes[NodeId(name)].frame_entries_max = int(count)
        case "lose", [kind]:
            net.drop = lambda _s, _t, message: isinstance(message, KINDS[kind])
        case "lose", [kind, "to", name]:
            net.drop = lambda _s, to, message: to == name and isinstance(message, KINDS[kind])
        case "hold", [name]:  # its disk takes writes and finishes no sync
            net.nodes[NodeId(name)].auto_flush = False
        case "flush", [name]:
            net.nodes[NodeId(name)].auto_flush = True
            net.flush(name)
        case "restart", [name]:
            net.restart(NodeId(name))
        case "log", [name, *terms]:
            begin_with(net, name, [int(term) for term in terms])
        case "term", [name, term]:
            begin_with(net, name, terms_of(net, name), int(term))
        case _:
            return False
    return True


def _group(net: Net, verb: str, words: list[str]) -> bool:
    """Members, transfer and reads."""
    match verb, words:
        case "join", [name]:
            net.join(name)
        case "wipe", [name]:
            net.wipe(name)
        case "change", [leader, kind, name, *rest]:
            net.change(leader, ChangeKind(kind), name, int(rest[0]) if rest else 0)
        case "transfer", [leader, to]:
            net.handle(leader, ev.TransferRequested(NodeId(to), 1))
        case "read", [name, number]:
            net.handle(name, ev.ReadRequested(int(number)))
        case _:
            return False
    return True


# -- questions -------------------------------------------------------------------------------------


def question(net: Net, verb: str, words: list[str]) -> str | None:
    """What is printed below the line; None: it is no question."""
    match verb, words:
        case "show", [name]:
            return show(net, name)
        case "state", [name]:
            return state(net, name)
        case "terms", [name]:
            return " ".join(str(term) for term in terms_of(net, name)) or "empty"
        case "commit", []:
            return " ".join(f"{name}:{net.raft(name).commit}" for name in net.names)
        case "dropped", []:
            drops = [f"{name} all above {index}" for name, index in net.truncations]
            return ", ".join(drops) or "nothing"
        case "reads", [name]:
            return reads(net, name)
        case "offer", [name]:
            return offer(net, name)
        case "ask", _:
            return ask(net, words)
        case "append", _:
            return append(net, words)
    return None


def show(net: Net, name: str) -> str:
    """Role, ends and group."""
    raft = net.raft(name)
    members = " ".join(f"{m.node_id}:{m.standing.value}" for m in raft.configuration.members)
    ends = f"committed {raft.commit + 1} of {raft.log.last.index + 1}"
    return f"{raft.role.value} {ends}: {members or 'nobody known'}"


def state(net: Net, name: str) -> str:
    """Role, term and whom it follows."""
    raft = net.raft(name)
    vote = raft.status().voted_for or "nobody"
    return f"{raft.role.value} in term {raft.term}, leader {raft.leader or 'unknown'}, vote {vote}"


def offer(net: Net, name: str) -> str:
    """One entry is offered by a client: taken, or refused with what the client is told."""
    effect = net.propose(name)[0]
    if isinstance(effect, fx.ProposalRejected):
        return f"refused: {effect.reason.name}, leader {effect.leader or 'unknown'}"
    assert isinstance(effect, fx.AppendLocal)
    return f"taken as entry {effect.first} of term {effect.term}"


def reads(net: Net, name: str) -> str:
    """How each read that was asked for here ended."""
    said = []
    for effect in net.nodes[NodeId(name)].effects:
        if isinstance(effect, fx.ReadReady):
            said.append(f"{effect.read_id} at {effect.index}")
        elif isinstance(effect, fx.ReadRefused):
            said.append(f"{effect.read_id} refused")
    return ", ".join(said) or "none answered"


def ask(net: Net, words: Sequence[str]) -> str:
    """`ask VOTER CANDIDATE TERM LAST_TERM LAST_INDEX [pre]`: the voter's answer."""
    voter, candidate, term, last_term, last_index, *pre = words
    last = EntryId(Term(int(last_term)), Index(int(last_index)))
    waiting, net.wires = net.wires, []
    request = VoteRequest(NodeId(candidate), Term(int(term)), last, pre=bool(pre))
    net.handle(voter, ev.MessageReceived(request))
    (reply,) = [m for _, _, m in net.wires if isinstance(m, VoteReply)]
    net.wires = waiting
    return f"{'yes' if reply.granted else 'no'}, term {reply.term}"


def append(net: Net, words: Sequence[str]) -> str:
    """`append NODE LEADER TERM PREV_TERM PREV_INDEX COMMIT [TERMS …]`: the answer, or the halt."""
    name, leader, term, prev_term, prev_index, commit, *terms = words
    prev = (int(prev_term), int(prev_index))
    message = ranged(
        NodeId(leader), int(term), prev, [int(each) for each in terms], commit=int(commit)
    )
    waiting, net.wires = net.wires, []
    try:
        net.handle(name, ev.MessageReceived(message))
    except SafetyViolation as halt:
        return f"halts: {halt}"
    (reply,) = [m for _, _, m in net.wires if isinstance(m, AppendReply)] or [None]
    net.wires = waiting
    if reply is None:
        return "no answer before it is on disk"
    if reply.success:
        return f"has all up to {reply.matched}, on disk up to {reply.flushed}"
    if reply.conflict.index == NO_INDEX:
        return f"refused, term {reply.term}"
    return f"refused, term {reply.term}; look at entry {reply.conflict.index}"
