"""What can be done with a sealed request that somebody recorded: a table of attacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.core.access.accounts import AccountsError, read_accounts
from cluster.core.access.rules import Denied, caller_of
from cluster.core.access.seal import (
    NONCE_SIZE,
    SEAL,
    SEAL_SIZE,
    Seal,
    broken,
    form_of,
    make_seal,
    read_seal,
)
from cluster.core.access.signature import SIGNATURE, is_signed, sign, signed_content
from cluster.core.access.single_use import (
    LOOKS,
    SealNotOfNow,
    SignatureWindow,
    UsedBefore,
    WindowFull,
)
from cluster.protocol.codes import RequestCode as Code

START_MS = 1_700_000_000_000
ACCOUNTS = read_accounts(
    {
        "accounts": [
            {"accessKey": "orders", "secretKey": "orders-secret"},
            {"accessKey": "strict", "secretKey": "strict-secret", "sealed": "required"},
            {
                "accessKey": "nearby",
                "secretKey": "nearby-secret",
                "sealed": "required",
                "whiteRemoteAddress": "10.0.0.*",
            },
        ]
    }
)


class Request(NamedTuple):
    """What a frame says of itself."""

    code: int
    ext: Mapping[str, str]
    body: bytes = b""
    version: int = 31001

    def renamed(self, old: str, new: str) -> Request:
        return self._replace(ext={new if n == old else n: v for n, v in self.ext.items()})

    def without(self, name: str) -> Request:
        return self._replace(ext={n: v for n, v in self.ext.items() if n != name})

    def moved(self, name: str, count: int, to: str) -> Request:
        """The last `count` characters of one field in front of another one, which may be new."""
        value = self.ext[name]
        changed = {name: value[:-count], to: value[-count:] + self.ext.get(to, "")}
        return self._replace(ext={**self.ext, **changed})


def sealed(
    code: int = Code.SEND_MESSAGE_V2,
    stamp_ms: int = START_MS,
    *,
    key: str = "orders",
    number: int = 0,
) -> Request:
    ext = {"AccessKey": key, "b": "T", "e": "1", "i": "KEYS"}
    seal = make_seal(code, ext, 4, stamp_ms, f"{number:0{NONCE_SIZE}x}")
    ext[SEAL] = seal.text()
    ext[SIGNATURE] = sign(ext, b"body", f"{key}-secret")
    return Request(code, ext, b"body")


def judge(request: Request, host: str = "10.0.0.7") -> None:
    caller_of(ACCOUNTS, host, request.code, request.ext, request.body, request.version)


ATTACKS: Mapping[str, Callable[[Request], Request]] = {
    "another code": lambda r: r._replace(code=int(Code.DELETE_TOPIC_IN_BROKER)),
    "a code that looks as well": lambda r: r._replace(code=int(Code.PULL_MESSAGE)),
    "a border between fields": lambda r: r.moved("i", 1, "zz"),
    "a border to the body": lambda r: r._replace(ext={**r.ext, "i": r.ext["i"] + "bo"}, body=b"dy"),
    "the body as a field": lambda r: r._replace(ext={**r.ext, "zz": "body"}, body=b""),
    "an empty field more": lambda r: r._replace(ext={**r.ext, "zz": ""}),
    "an empty field before all": lambda r: r._replace(ext={**r.ext, "0": ""}),
    "a field that old clients do not sign": lambda r: r._replace(
        ext={**r.ext, "_UNIQUE_KEY_QUERY": "true"}, version=399
    ),
    "a renamed field": lambda r: r.renamed("e", "f"),
    "a renamed topic": lambda r: r.renamed("b", "c"),
    "the seal as another field": lambda r: r.renamed(SEAL, "1"),
    "the seal as a field before": lambda r: r.renamed(SEAL, "0s"),
    "the seal cut in two": lambda r: r.moved(SEAL, 40, "1"),
    "the seal's marker cut off": lambda r: r.moved(SEAL, SEAL_SIZE - 4, "1"),
    "the seal cut in two, both before": lambda r: r._replace(
        ext={**r.ext, "0": r.ext[SEAL][:9], SEAL: r.ext[SEAL][9:]}
    ),
    "the seal in front of the access key": lambda r: r.without(SEAL)._replace(
        ext={**r.without(SEAL).ext, "A": r.ext[SEAL]}
    ),
}


def test_what_is_as_it_was_sealed_is_taken() -> None:
    judge(sealed())
    judge(sealed(key="strict"))


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_was_signed_is_no_other_request(attack: str) -> None:
    request = sealed()
    changed = ATTACKS[attack](request)
    assert changed != request
    assert is_signed(changed.ext, changed.body, "orders-secret", changed.version), (
        "the attack keeps what the signature covers, else this shows nothing"
    )
    with pytest.raises(Denied, match="changed on its way"):
        judge(changed)


def test_without_its_seal_the_signature_is_wrong() -> None:
    with pytest.raises(Denied, match=r"signature .* is wrong"):
        judge(sealed().without(SEAL))


_names = st.text(st.characters(codec="utf-8"), max_size=6)
_ext = st.dictionaries(_names.filter(lambda n: n not in (SEAL, SIGNATURE)), _names, max_size=5)


@given(_ext, _ext, st.integers(0, 9), st.integers(0, 9))
def test_no_two_requests_have_one_form(
    ext: dict[str, str], other: dict[str, str], size: int, other_size: int
) -> None:
    """Names and sizes are told apart, whatever is in the names."""

    def shape(fields: dict[str, str], body_size: int) -> object:
        return {name: len(value.encode()) for name, value in fields.items()}, body_size

    same = shape(ext, size) == shape(other, other_size)
    assert (form_of(ext, size) == form_of(other, other_size)) is same


def test_a_name_is_not_read_as_two() -> None:
    both = {"a": "x", "b": "y"}
    for one in ("a1b", "a1:b1", "a\x001\x00b", "a1,1:b1", "1:a1,1:b"):
        assert form_of({one: "xy"}, 0) != form_of(both, 0)
        assert form_of({one: "y"}, 0) != form_of(both, 0)


@given(st.text(max_size=SEAL_SIZE + 5))
def test_what_is_no_seal_is_none(text: str) -> None:
    assert read_seal({SEAL: text}) is None
    assert broken(10, {SEAL: text, "z": "1"}, 0, f"{text}1".encode()) is not None


def test_a_seal_reads_as_it_was_made() -> None:
    seal = Seal(310, START_MS, "0123456789abcdef01234567", bytes(range(16)))
    assert len(seal.text()) == SEAL_SIZE
    assert read_seal({SEAL: seal.text()}) == seal
    for wrong in (seal.text().upper(), seal.text() + "\n", seal.text().replace("0", "٠", 1)):
        assert read_seal({SEAL: wrong}) is None


# ---- accounts ------------------------------------------------------------------------------------


def unsealed(key: str) -> Request:
    """As a stock client signs it."""
    ext = {"AccessKey": key, "topic": "T"}
    return Request(10, {**ext, SIGNATURE: sign(ext, b"body", f"{key}-secret")}, b"body", 453)


def test_an_account_takes_unsealed_requests_unless_it_says_no() -> None:
    judge(unsealed("orders"))
    with pytest.raises(Denied, match="takes sealed requests only"):
        judge(unsealed("strict"))
    judge(unsealed("nearby"), "10.0.0.7")
    with pytest.raises(Denied, match="takes sealed requests only"):
        judge(unsealed("nearby"), "10.0.1.7")


@pytest.mark.parametrize("value", [True, "always", None, 1])
def test_what_sealed_cannot_be(value: object) -> None:
    row = {"accessKey": "orders", "secretKey": "orders-secret", "sealed": value}
    with pytest.raises(AccountsError, match=r"'orders': sealed is .* optional or required"):
        read_accounts({"accounts": [row]})


# ---- time and single use -------------------------------------------------------------------------


class Node:
    """One node's window. `at`: seconds of its clock that is never set; `set_ms`: by how much the
    other one was."""

    def __init__(self, *, clock_ms: int = START_MS, entries_max: int = 10) -> None:
        self.at, self.set_ms = 1000.0, 0
        self.window = SignatureWindow(
            lambda: self.at,
            lambda: clock_ms + (self.at - 1000.0) * 1000 + self.set_ms,
            entries_max=entries_max,
        )
        self.at += 100.0  # it runs a while

    def ask(self, request: Request, peer: str | None = None, host: str = "10.0.0.7") -> None:
        self.window.admit(request.code, request.ext, len(request.body), host, peer)

    def now_ms(self, ago: float = 0.0) -> int:
        """A stamp of that many seconds ago, on a clock that started with this node."""
        return START_MS + round((self.at - 1000.0 - ago) * 1000)


@pytest.mark.parametrize("code", [Code.SEND_MESSAGE_V2, Code.PULL_MESSAGE, Code.HEART_BEAT])
def test_a_seal_is_good_once(code: int) -> None:
    node = Node()
    request = sealed(code, node.now_ms())
    node.ask(request)
    for host in ("10.0.0.7", "10.0.0.8"):
        with pytest.raises(UsedBefore, match="used before"):
            node.ask(request, host=host)
    node.ask(sealed(code, node.now_ms(), number=1))


@pytest.mark.parametrize(
    ("ago", "taken"),
    [(0.0, True), (30.0, True), (30.001, False), (3600.0, False), (-1.0, True), (-1.001, False)],
)
@pytest.mark.parametrize("code", [Code.SEND_MESSAGE_V2, Code.PULL_MESSAGE])
def test_a_seal_is_of_now(code: int, ago: float, taken: bool) -> None:
    node = Node()
    request = sealed(code, node.now_ms(ago))
    if taken:
        node.ask(request)
        return
    with pytest.raises(SealNotOfNow, match="seal it anew") as found:
        node.ask(request)
    assert f"{abs(ago):.3f} s {'behind' if ago > 0 else 'ahead of'}" in str(found.value)
    node.ask(sealed(code, found.value.stamp_ms, number=1))


def test_a_seal_is_remembered_for_as_long_as_it_is_of_now() -> None:
    node = Node(entries_max=1000)
    early = sealed(stamp_ms=node.now_ms(-1.0))
    node.ask(early)
    for second in range(1, 100):
        node.at += 1.0
        with pytest.raises((UsedBefore, SealNotOfNow)):
            node.ask(early)
        node.ask(sealed(stamp_ms=node.now_ms(), number=second))


def test_a_seal_of_before_a_node_began_is_not_good_there() -> None:
    """Whoever ran there before may have seen it."""
    old = Node()
    request = sealed(stamp_ms=old.now_ms())
    old.ask(request)
    started = Node(clock_ms=old.now_ms() + 1)
    with pytest.raises(SealNotOfNow):
        started.ask(request)


def test_a_clock_that_is_set_back_makes_no_seal_good_again() -> None:
    node = Node()
    request = sealed(stamp_ms=node.now_ms())
    node.ask(request)
    node.at += 61.0  # it is forgotten
    node.set_ms = -61_000
    with pytest.raises(SealNotOfNow) as found:
        node.ask(request)
    node.ask(sealed(stamp_ms=found.value.stamp_ms, number=1))


def test_a_clock_that_jumps_ahead_is_followed() -> None:
    """The machine slept, and `now` with it; the others' clocks went on."""
    node = Node()
    old = sealed(stamp_ms=node.now_ms())
    node.set_ms = 3_600_000
    node.ask(sealed(stamp_ms=node.now_ms() + 3_600_000, number=1))
    with pytest.raises(SealNotOfNow):
        node.ask(old)
    node.set_ms = 0
    node.ask(sealed(stamp_ms=node.now_ms(), number=2))  # no seal was taken of this time before


def test_what_was_taken_while_a_clock_was_ahead_is_not_good_again() -> None:
    node = Node()
    node.set_ms = 3_600_000
    ahead = sealed(stamp_ms=node.now_ms() + 3_600_000)
    node.ask(ahead)
    node.at += 1.0
    node.set_ms = 0
    node.ask(sealed(stamp_ms=node.now_ms(), number=1))
    node.at += 3_599.0
    with pytest.raises(SealNotOfNow) as found:
        node.ask(ahead)
    node.ask(sealed(stamp_ms=found.value.stamp_ms, number=2))


def test_what_a_full_window_forgets_is_not_good_again() -> None:
    node = Node(entries_max=2)
    first = sealed(stamp_ms=node.now_ms(-1.0))
    node.ask(first)
    node.ask(sealed(stamp_ms=node.now_ms(), number=1))
    node.at += 16.0  # older than what must be kept, and the seals are still of now
    node.ask(sealed(stamp_ms=node.now_ms(), number=2))
    assert len(node.window) == 1
    with pytest.raises(SealNotOfNow):
        node.ask(first)


def test_a_full_window_takes_sealed_looks_only() -> None:
    node = Node(entries_max=1)
    node.ask(sealed(stamp_ms=node.now_ms()))
    node.ask(sealed(Code.PULL_MESSAGE, node.now_ms(), number=1))
    for number, code in enumerate((Code.SEND_MESSAGE_V2, Code.UPDATE_CONSUMER_OFFSET), 2):
        with pytest.raises(WindowFull):
            node.ask(sealed(code, node.now_ms(), number=number))


def test_through_another_node_it_is_not_good_again() -> None:
    """The leader remembers what changes something, and who passed it on first."""
    leader = Node()
    passed = sealed(stamp_ms=leader.now_ms())
    leader.ask(passed, peer="n1")
    leader.ask(passed, peer="n1")  # its link broke, and n1 asks again
    for peer in ("n2", None):
        with pytest.raises(UsedBefore):
            leader.ask(passed, peer=peer)
    direct = sealed(stamp_ms=leader.now_ms(), number=1)
    leader.ask(direct)
    with pytest.raises(UsedBefore):
        leader.ask(direct, peer="n1")


def test_the_leader_judges_the_age_of_what_is_passed_on() -> None:
    leader = Node()
    with pytest.raises(SealNotOfNow):
        leader.ask(sealed(stamp_ms=leader.now_ms(31.0)), peer="n1")


@pytest.mark.parametrize("code", sorted(LOOKS))
def test_a_peer_may_pass_a_look_on_late(code: int) -> None:
    """It passes heartbeats on again to each new leader, and a pull when its wait is over."""
    leader = Node()
    leader.ask(sealed(code, leader.now_ms(3600.0)), peer="n1")
    leader.window.judge_age(code, sealed(code, START_MS).ext, leader.at)


@pytest.mark.parametrize("code", sorted(set(Code) - LOOKS))
def test_a_change_of_before_a_leadership_is_not_good_in_it(code: int) -> None:
    """The leader before remembers what was used there; the next one does not know."""
    leader = Node()
    before, since = sealed(code, leader.now_ms()), leader.at + 0.5
    leader.at += 1.0
    with pytest.raises(SealNotOfNow) as found:
        leader.window.judge_age(code, before.ext, since)
    leader.window.judge_age(code, sealed(code, found.value.stamp_ms).ext, since)
    leader.window.judge_age(code, unsealed("orders").ext, since)


@pytest.mark.parametrize("at", [5.0, 5.0003])
def test_a_stamp_that_is_told_at_the_first_moment_is_taken(at: float) -> None:
    window = SignatureWindow(lambda: at, lambda: START_MS)
    old = sealed(stamp_ms=START_MS - 1)
    with pytest.raises(SealNotOfNow) as found:
        window.admit(old.code, old.ext, 4, "10.0.0.7")
    new = sealed(stamp_ms=found.value.stamp_ms)
    window.admit(new.code, new.ext, 4, "10.0.0.7")


def test_content_is_what_it_was() -> None:
    """An unsealed signature covers what it covers in RocketMQ."""
    request = unsealed("orders")
    assert signed_content(request.ext, request.body, 453) == b"ordersTbody"
