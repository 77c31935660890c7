"""Every request code of a name server, tried by every kind of caller, by effect."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cluster.core.access.seal import NONCE_SIZE, SEAL, make_seal
from cluster.core.access.signature import sign
from cluster.errors import InvalidRequest, Unauthorized
from cluster.nameserver.access import Guard, Rule
from cluster.nameserver.kv_config import LocalKvConfig
from cluster.nameserver.listen import NameServerConfigError
from cluster.nameserver.registry import TERM_STEP_MAX, Registry
from cluster.nameserver.requests import NameServerRequests
from cluster.nameserver.used_seals import UsedSeals
from cluster.protocol.codes import VERSION_OWN
from cluster.protocol.frames import Frame
from cluster.protocol.headers import RegisterBrokerRequest, UnregisterBrokerRequest, encode
from cluster.protocol.node_proof import PROOF_SECONDS_MAX, prove
from cluster.protocol.topics import Registration, TopicConfig, encode_registration
from cluster.security.access_file import Access

HERE, ELSEWHERE = "127.0.0.9:40000", "192.0.2.7:40000"
SECRET = "one for all of this test"
NOW_MS = 1_700_000_000_000
ACCOUNTS = """
accounts:
- accessKey: account-none
  secretKey: secret-of-account-none
- accessKey: account-admin
  secretKey: secret-of-account-admin
  admin: true
"""
BODY = encode_registration(Registration({"T": TopicConfig("T")}, 1))
LATER = encode_registration(Registration({"T": TopicConfig("T"), "U": TopicConfig("U")}, 2))
KEY = {"namespace": "N", "key": "k"}
REGISTER = encode(RegisterBrokerRequest("b", "n1:1", "c", 0, term=5))
UNREGISTER = encode(UnregisterBrokerRequest("b", "n0:1", "c", 0, term=4))

# The servers: alone (without accounts and secret), accounts, secret, both. The callers: somebody on
# this machine and elsewhere, an account without rights, an admin account, a node with the secret.
# `+` does it, `-` is refused and changes and shows nothing.
TABLE = """
code  effect   alone: here away node   accounts: away none admin node  secret: here node  both: none admin node
100   state           +    -    -                -    -    +     -             +    -           -    +     -
101   shown           +    +    +                +    +    +     +             +    +           +    +     +
102   state           +    -    -                -    -    +     -             +    -           -    +     -
103   state           +    +    +                -    -    +     -             -    +           -    +     +
104   state           +    +    +                -    -    +     -             -    +           -    +     +
105   shown           +    +    +                +    +    +     +             +    +           +    +     +
106   shown           +    +    +                +    +    +     +             +    +           +    +     +
205   state           +    -    -                -    -    +     -             +    -           -    +     -
206   shown           +    +    +                -    +    +     -             +    +           +    +     -
216   state           +    -    -                -    -    +     -             +    -           -    +     -
219   shown           +    +    +                +    +    +     +             +    +           +    +     +
224   shown           +    +    +                -    +    +     -             +    +           +    +     -
304   shown           +    +    +                -    +    +     -             +    +           +    +     -
318   none            +    -    -                -    -    +     -             +    -           -    +     -
319   shown           +    +    +                -    +    +     -             +    +           +    +     -
322   shown           +    +    +                -    +    +     -             +    +           +    +     -
327   state           +    -    -                -    -    +     -             +    -           -    +     -
"""  # noqa: E501 (a table)
COLUMNS = [
    *(("alone", who) for who in ("here", "away", "node")),
    *(("accounts", who) for who in ("away", "none", "admin", "node")),
    *(("secret", who) for who in ("here", "node")),
    *(("both", who) for who in ("none", "admin", "node")),
]
ASKS: Mapping[int, tuple[Mapping[str, str], bytes]] = {
    100: ({**KEY, "value": "new"}, b""),
    101: (KEY, b""),
    102: (KEY, b""),
    103: (REGISTER, LATER),
    104: (UNREGISTER, b""),
    105: ({"topic": "T"}, b""),
    106: ({}, b""),
    205: ({"brokerName": "b"}, b""),
    206: ({}, b""),
    216: ({"topic": "T"}, b""),
    219: ({"namespace": "N"}, b""),
    224: ({"cluster": "c"}, b""),
    304: ({}, b""),
    318: ({}, b"unknown=1\n"),
    319: ({}, b""),
    322: (encode(UnregisterBrokerRequest("b", "n0:1", "c", 0)), b'{"timestamp":1,"counter":1}'),
    327: ({"brokerName": "wiped"}, b""),
}


def _rows() -> list[tuple[int, str, list[bool]]]:
    rows = []
    for line in filter(None, map(str.strip, TABLE.splitlines()[2:])):
        code, effect, *marks = line.split()
        assert len(marks) == len(COLUMNS), line
        rows.append((int(code), effect, [mark == "+" for mark in marks]))
    return rows


class Server:
    """What answers, without sockets; brokers b and wiped are registered."""

    def __init__(self, accounts: Path | None, secret: str | None) -> None:
        self.registry, self.kv = Registry(), LocalKvConfig()
        file = Access(accounts) if accounts is not None else None
        guard = Guard(file, secret, lambda: NOW_MS)
        self.requests = NameServerRequests(
            self.registry,
            self.kv,
            lambda: 100.0,
            guard=guard,
            warm_up_seconds=0,
            settings={"listenPort": "9876"},
        )

    async def filled(self) -> Server:
        await self.kv.put("N", "k", "kept")
        await self.kv.put("DLEDGER_WIPED_WRITE_PERM", "wiped", "1")
        for name in ("b", "wiped"):
            request = RegisterBrokerRequest(name, "n0:1", "c", 0, term=4)
            self.registry.register(request, Registration({"T": TopicConfig("T")}, 1), 100.0)
        return self

    async def ask(self, frame: Frame, address: str) -> Frame:
        answer = self.requests.handle(frame, address)
        return await answer if inspect.isawaitable(answer) else answer

    def picture(self) -> Any:
        wiped = dict(self.kv.namespace("DLEDGER_WIPED_WRITE_PERM"))
        brokers = [(b.broker_name, b.addresses, b.term) for b in self.registry.brokers(100.0)]
        return brokers, self.registry.topics(), dict(self.kv.namespace("N")), wiped


def _frame(code: int, who: str) -> tuple[Frame, str]:
    ext, body = ASKS[code]
    frame = Frame(code, 1, ext, body)
    if who in ("none", "admin"):
        fields = {**ext, "AccessKey": f"account-{who}"}
        signature = sign(fields, body, f"secret-of-account-{who}", frame.version)
        frame = frame._replace(ext={**fields, "Signature": signature})
    if who == "node":
        frame = prove(frame, NOW_MS - 5, SECRET)
    return frame, HERE if who == "here" else ELSEWHERE


def test_every_code_that_is_served_has_a_row() -> None:
    served = set(Server(None, None).requests.served)
    assert served == {code for code, _, _ in _rows()} == set(ASKS)


@pytest.mark.parametrize(("code", "effect", "marks"), _rows(), ids=[str(c) for c, _, _ in _rows()])
async def test_each_caller_does_what_the_table_says_and_nothing_else(
    tmp_path: Path, code: int, effect: str, marks: list[bool]
) -> None:
    file = tmp_path / "plain_acl.yml"
    file.write_text(ACCOUNTS)
    wrong = []
    for (kind, who), allowed in zip(COLUMNS, marks, strict=True):
        accounts = file if kind in ("accounts", "both") else None
        secret = SECRET if kind in ("secret", "both") else None
        server = await Server(accounts, secret).filled()
        before = server.picture()
        answer = await server.ask(*_frame(code, who))
        found = "state" if server.picture() != before else "none"
        if found == "none" and answer.code == 0 and (answer.body or answer.ext):
            found = "shown"
        expected = (0, effect) if allowed else (16, "none")
        if (answer.code, found) != expected:
            wrong.append(f"{kind}, {who}: {answer.code} {found}, {answer.remark}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("change", ["body", "address", "code", "stamp", "secret", "late", "border"])
async def test_a_proof_is_of_one_registration_and_of_now(change: str) -> None:
    server = await Server(None, SECRET).filled()
    good, _ = _frame(103, "node")
    ext, before = dict(good.ext), server.picture()
    bad = {
        "body": good._replace(body=BODY),
        "address": good._replace(ext={**ext, "brokerAddr": "evil:1"}),
        "code": good._replace(code=104),
        "stamp": good._replace(ext={**ext, "nodeStamp": str(NOW_MS)}),
        "secret": prove(Frame(103, 1, REGISTER, LATER), NOW_MS, SECRET + "x"),
        "late": prove(
            Frame(103, 1, REGISTER, LATER), NOW_MS - int(PROOF_SECONDS_MAX * 1000) - 1, SECRET
        ),
        "border": good._replace(ext={**ext, "brokerName": "bc", "clusterName": ""}),
    }[change]
    assert (await server.ask(bad, HERE)).code == 16
    assert server.picture() == before
    assert (await server.ask(good, ELSEWHERE)).code == 0
    assert server.picture() != before


async def test_a_recorded_registration_is_taken_once_and_in_its_order() -> None:
    """Nobody brings a node back that has left, or takes one out that has come again."""
    server = await Server(None, SECRET).filled()
    leader = encode(RegisterBrokerRequest("b", "n0:1", "c", 0, term=4))
    coming, leaving = (103, leader, BODY), (104, UNREGISTER, b"")
    came, left, came_again, left_again = (
        prove(Frame(code, 1, ext, body), NOW_MS + number, SECRET)
        for number, (code, ext, body) in enumerate([coming, leaving, coming, leaving])
    )
    for frame, recorded in ((came, came), (left, came), (came_again, left), (left_again, left)):
        assert (await server.ask(frame, HERE)).code == 0
        before = server.picture()
        answer = await server.ask(recorded, HERE)
        assert (answer.code, "came before" in (answer.remark or "")) == (16, True)
        assert server.picture() == before
    other = encode(RegisterBrokerRequest("b", "n9:1", "c", 1, term=4))
    assert (await server.ask(prove(Frame(103, 1, other, BODY), NOW_MS, SECRET), HERE)).code == 0


async def test_stamps_of_a_clock_that_was_ahead_are_forgotten_when_it_is_set_back() -> None:
    now_ms = NOW_MS + 3_600_000
    guard = Guard(None, SECRET, lambda: now_ms)
    ahead = prove(Frame(103, 1, REGISTER, BODY), now_ms, SECRET)
    guard.check(Rule.NODE, HERE, ahead)
    now_ms = NOW_MS
    guard.check(Rule.NODE, HERE, prove(Frame(103, 1, REGISTER, BODY), now_ms, SECRET))
    with pytest.raises(Unauthorized):
        guard.check(Rule.NODE, HERE, ahead)


@pytest.mark.parametrize("term", [1 << 62, (1 << 63) - 1, 4 + TERM_STEP_MAX + 1, -2, -(1 << 63)])
def test_a_term_that_no_leader_can_have_is_refused(term: int) -> None:
    """It would keep every true leader out of the routes."""
    server = asyncio.run(Server(None, None).filled())
    before = server.picture()
    nothing = Registration({}, 9)
    for request in (
        RegisterBrokerRequest("b", "evil:1", "c", 0, term=term),
        RegisterBrokerRequest("b", "evil:1", "c", 3, term=term, leader_addr="evil:1"),
        RegisterBrokerRequest("new", "evil:1", "c", 0, term=term),
    ):
        with pytest.raises(InvalidRequest, match="is impossible"):
            server.registry.register(request, nothing, 100.0)
    gone = UnregisterBrokerRequest("b", "n0:1", "c", 0, term=term)
    with pytest.raises(InvalidRequest, match="is impossible"):
        server.registry.unregister(gone, 100.0)
    assert server.picture() == before
    nearest = RegisterBrokerRequest("b", "n1:1", "c", 0, term=4 + TERM_STEP_MAX)
    server.registry.register(nearest, nothing, 100.0)


class Life:
    """One life of a name server with accounts, and its clock, which is set by hand."""

    def __init__(self, accounts: Path, seals: Path, now_ms: int) -> None:
        self.now, self.started_ms, self.kv = 1000.0, now_ms - 1_000_000, LocalKvConfig()
        file = Access(accounts, now=lambda: self.now, now_ms=self.now_ms)
        guard = Guard(file, None, self.now_ms, UsedSeals(seals))
        self.requests = NameServerRequests(Registry(), self.kv, lambda: self.now, guard=guard)
        self.now += 1.0  # what is sealed at its start could be of before

    def now_ms(self) -> int:
        return self.started_ms + int(self.now * 1000)

    async def put(self, frame: Frame) -> Frame:
        answer = self.requests.handle(frame, ELSEWHERE)
        return await answer if inspect.isawaitable(answer) else answer

    def sealed(self, number: int, stamp_ms: int | None = None) -> Frame:
        """A change, sealed now or at `stamp_ms`."""
        stamp_ms = self.now_ms() if stamp_ms is None else stamp_ms
        ext = {**KEY, "value": "new", "AccessKey": "account-admin"}
        ext[SEAL] = make_seal(100, ext, 0, stamp_ms, f"{number:0{NONCE_SIZE}x}").text()
        ext["Signature"] = sign(ext, b"", "secret-of-account-admin", VERSION_OWN)
        return Frame(100, 1, ext, version=VERSION_OWN)


async def test_a_seal_of_a_clock_that_was_ahead_is_good_in_no_later_life(tmp_path: Path) -> None:
    accounts, seals = tmp_path / "plain_acl.yml", tmp_path / "used-seals"
    accounts.write_text(ACCOUNTS)
    ahead = Life(accounts, seals, NOW_MS + 600_000)
    recorded = ahead.sealed(1)
    assert (await ahead.put(recorded)).code == 0
    later = Life(accounts, seals, NOW_MS)
    for _ in range(620):
        later.now += 1.0
        answer = await later.put(recorded)
        assert (answer.code, later.kv.get("N", "k")) != (0, "new"), later.now
    told = await later.put(later.sealed(2))
    assert (await later.put(later.sealed(3, int(told.ext["sealTime"])))).code == 0
    assert later.kv.get("N", "k") == "new"


async def test_a_sealed_change_that_cannot_be_kept_is_not_done(tmp_path: Path) -> None:
    accounts = tmp_path / "plain_acl.yml"
    accounts.write_text(ACCOUNTS)
    life = Life(accounts, tmp_path / "nowhere" / "used-seals", NOW_MS)
    answer = await life.put(life.sealed(1))
    assert (answer.code, "could not be stored" in (answer.remark or "")) == (1, True)
    assert life.kv.get("N", "k") is None


def test_another_file_starts_no_name_server(tmp_path: Path) -> None:
    file = tmp_path / "used-seals"
    file.write_text("yesterday")
    with pytest.raises(NameServerConfigError, match="remove it"):
        UsedSeals(file)
