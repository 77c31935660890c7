"""The beginning of a link: it names its client, and proves which node opens it. Sans-IO.

    follower (ForwardDialler)                            leader (ForwardAcceptor)
      │ 31002: clientAddress, node, life, to, nonce ───►│
      │◄──────────────── answer: nonce, proof           │  only with a cluster secret
      │ 31002, oneway: proof ──────────────────────────►│
      │ the client's requests ─────────────────────────►│

Each side proves the secret over both nonces and all that was said (membership/proof.py), as on the
peer port, so a hello that somebody recorded opens no second link. Without a secret the first hello
is oneway and opens the link by itself: everybody who reaches the port may forward then. The first
hello names the term of the leadership that the link is for, too (in_doubt.py), and says whether the
client came to the relay port (rest_queues.py). Both are no part of the proof, because earlier
releases do not know them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cluster.errors import InvalidRequest, Unauthorized
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import FLAG_ONEWAY, Frame, response
from commitlog.address import split_address
from commitlog.records.hosts import Host
from dledger.membership.proof import NONCE_SIZE, PROOF_SIZE, prove, proves

_LEADER, _FOLLOWER = b"link acceptor", b"link dialler"  # not the roles of the peer port
_SAID = ("clientAddress", "node", "life", "to", "nonce")


@dataclass(frozen=True, slots=True)
class Hello:
    """Client and node of a link. `start_token`: another one after each start of the node.

    `term`: the link is for that leadership; None: an earlier release does not say. `is_relayed`:
    the client came to the node's relay port, and the node says so.
    """

    client: Host
    node: str
    start_token: str
    term: int | None = None
    is_relayed: bool = False


class ForwardDialler:
    """Our side of a link that we open: send `begin()`, then feed answers until `is_open`."""

    def __init__(
        self,
        client_address: str,
        node: str,
        start_token: str,
        to: str,
        secret: str | None,
        nonce: bytes,
        term: int | None = None,
        *,
        is_relayed: bool = False,
    ) -> None:
        """`to`: node id of the leader, in `term`. `nonce`: NONCE_SIZE random bytes, new ones.

        `is_relayed`: the client came to the relay port.
        """
        assert len(nonce) == NONCE_SIZE
        self._secret = None if secret is None else secret.encode()
        self._said = {"clientAddress": client_address, "node": node, "life": start_token, "to": to}
        if term is not None:
            self._said["term"] = str(term)
        if is_relayed:
            self._said["relayed"] = "true"
        if secret is not None:
            self._said["nonce"] = nonce.hex()
        self.is_open = secret is None

    def begin(self) -> Frame:
        """The first frame of the link."""
        flag = FLAG_ONEWAY if self.is_open else 0
        return Frame(RequestCode.FORWARD_HELLO, 0, self._said, flag=flag)

    def receive(self, answer: Frame) -> Frame:
        """The frame to send next; the link is open then. Raises Unauthorized, InvalidRequest."""
        assert self._secret is not None, "without a secret nothing is answered"
        if answer.code:
            raise Unauthorized(f"the leader refuses the link: {(answer.remark or '')[:255]}")
        words = _transcript(self._said, _bytes_of(answer, "nonce", NONCE_SIZE))
        if not proves(_bytes_of(answer, "proof", PROOF_SIZE), self._secret, _LEADER, words):
            raise Unauthorized(
                f"node {self._said['to']} does not prove the cluster secret; give every node the "
                "same secret"
            )
        self.is_open = True
        proof = prove(self._secret, _FOLLOWER, words).hex()
        return Frame(RequestCode.FORWARD_HELLO, 0, {"proof": proof}, flag=FLAG_ONEWAY)


class ForwardAcceptor:
    """Our side of a link that a follower opens. Feed hellos until `hello` is set."""

    def __init__(self, me: str, peers: Collection[str], secret: str | None, nonce: bytes) -> None:
        """`nonce`: as of a ForwardDialler."""
        assert len(nonce) == NONCE_SIZE
        self._me, self._peers, self._nonce = me, peers, nonce
        self._secret = None if secret is None else secret.encode()
        self._said: Hello | None = None
        self._words = b""
        self.hello: Hello | None = None

    def receive(self, frame: Frame) -> Frame | None:
        """The answer, if any. Raises InvalidRequest or Unauthorized: then close the connection."""
        if self.hello is not None:
            raise InvalidRequest("a link says hello once; open another one")
        if self._said is None:
            return self._greet(frame)
        assert self._secret is not None
        proof = _bytes_of(frame, "proof", PROOF_SIZE)
        if not proves(proof, self._secret, _FOLLOWER, self._words):
            raise _unproven(self._said.node)
        self.hello = self._said
        return None

    def _greet(self, frame: Frame) -> Frame | None:
        said = _read(frame)
        if said.node not in self._peers:
            raise Unauthorized(f"node {said.node[:255]} is no peer of this node; check the peers")
        if self._secret is None:
            if "nonce" in frame.ext:
                raise _unproven(said.node)
            self.hello = said
            return None
        if frame.ext.get("to") != self._me:
            raise Unauthorized(f"a link to another node came to {self._me}; check the peers")
        _bytes_of(frame, "nonce", NONCE_SIZE)
        self._said, self._words = said, _transcript(frame.ext, self._nonce)
        proof = prove(self._secret, _LEADER, self._words)
        return response(frame, 0, {"nonce": self._nonce.hex(), "proof": proof.hex()})


def _read(frame: Frame) -> Hello:
    """Raises InvalidRequest."""
    try:
        address, node, start_token = (frame.ext[name] for name in ("clientAddress", "node", "life"))
        term = int(frame.ext["term"]) if "term" in frame.ext else None
        client, is_relayed = Host(*split_address(address)), frame.ext.get("relayed") == "true"
        return Hello(client, node, start_token, term, is_relayed)
    except (KeyError, ValueError) as error:
        raise InvalidRequest(
            f"a forwarding hello cannot be read ({error!r}); run the same release on every node"
        ) from None


def _transcript(said: Mapping[str, str], nonce: bytes) -> bytes:
    """All that was said before a proof, each part with its size."""
    parts = [*(said.get(name, "").encode() for name in _SAID), nonce]
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def _bytes_of(frame: Frame, name: str, size: int) -> bytes:
    try:
        found = bytes.fromhex(frame.ext.get(name, ""))
    except ValueError:
        found = b""
    if len(found) != size:
        raise Unauthorized(
            f"a link between nodes lacks its {name}; give every node the same cluster secret and "
            "the same release"
        )
    return found


def _unproven(node: str) -> Unauthorized:
    return Unauthorized(
        f"node {node[:255]} did not prove that it belongs to this cluster; give every node the "
        "same cluster secret"
    )
