"""Every field of every kind of send: missing, of the wrong type, out of range, too long.

Each has an answer that names the field and says what is wrong; the connection lives, others are
served, and nothing but what was acknowledged is in the log.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from cluster.core.access.signature import sign
from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.send import _V1_OF_V2

from .conftest import MakeBrokers
from .harness import RawClient, bodies

SENDS = (
    *(Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE),
    *(Code.SEND_REPLY_MESSAGE, Code.SEND_REPLY_MESSAGE_V2),
)
BY_NAME = (Code.SEND_MESSAGE, Code.SEND_REPLY_MESSAGE)
REPLIES = (Code.SEND_REPLY_MESSAGE, Code.SEND_REPLY_MESSAGE_V2)
VALID = {
    "a": "PG", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000123",
    "h": "0", "i": "", "j": "0", "k": "false", "m": "false", "n": "broker-a",
}  # fmt: skip
REQUIRED, NUMBERS, OPTIONAL = "abcdefgh", "defghjl", "ijklmn"
BODY = (29).to_bytes(4, "big") + bytes(12) + (7).to_bytes(4, "big") + b"message" + bytes(2)
LONG = "x" * 40_000
ENDS_OF_LONG = (str((1 << 63) - 1), str(-(1 << 63)), str(1 << 63))


@pytest.fixture
async def client(make_brokers: MakeBrokers) -> AsyncIterator[RawClient]:
    async with make_brokers() as brokers:
        made = await brokers.client(await brokers.leader())
        for queue in range(2):
            assert (await made.send(queue=queue)).code == 0
        yield made


def fields(code: Code, **changes: str | None) -> dict[str, str]:
    """Of a valid send, changed: None takes a field out."""
    ext = VALID | {"m": "true" if code is Code.SEND_BATCH_MESSAGE else "false"}
    for letter, value in changes.items():
        if value is None:
            ext.pop(letter, None)
        else:
            ext[letter] = value
    if code in BY_NAME:
        return {_V1_OF_V2[letter]: value for letter, value in ext.items()}
    return ext


def name(code: Code, letter: str) -> str:
    return _V1_OF_V2[letter] if code in BY_NAME else f"{letter} ({_V1_OF_V2[letter]})"


async def stored(client: RawClient) -> int:
    answer = await client.ask(Code.GET_MAX_OFFSET, {"topic": "T", "queueId": 0})
    return int(answer.ext["offset"])


@pytest.mark.parametrize("code", SENDS)
async def test_a_missing_field_is_named(client: RawClient, code: Code) -> None:
    before = await stored(client)
    for letter in REQUIRED:
        answer = await client.ask(code, fields(code, **{letter: None}), BODY)
        assert answer.code == 29, (letter, answer.remark)
        assert f"lacks its field {name(code, letter)}" in (answer.remark or ""), answer.remark
    assert await stored(client) == before
    if code not in REPLIES:
        for letter in OPTIONAL:
            answer = await client.ask(code, fields(code, **{letter: None}), BODY)
            assert answer.code == 0, (letter, answer.remark)


@pytest.mark.parametrize("code", SENDS)
async def test_a_number_that_is_none_is_named(client: RawClient, code: Code) -> None:
    before = await stored(client)
    for letter in NUMBERS:
        for wrong in ("x", "1.5", "0x10", "--1", LONG, "9" * 5000):
            answer = await client.ask(code, fields(code, **{letter: wrong}), BODY)
            assert answer.code == 29, (letter, wrong[:9], answer.remark)
            assert f"field {name(code, letter)} is {wrong[:40]!r}" in (answer.remark or "")
            assert len(answer.remark or "") < 200
    assert await stored(client) == before


@pytest.mark.parametrize("code", SENDS)
async def test_numbers_out_of_range_have_an_answer(client: RawClient, code: Code) -> None:
    """Whatever is refused is not stored; what no field of a record can hold is refused."""
    for letter in NUMBERS:
        for value in (*ENDS_OF_LONG, "-2", str(1 << 31), str(1 << 70)):
            before = await stored(client)
            answer = await client.ask(code, fields(code, **{letter: value}), BODY)
            assert answer.code == 0 or answer.remark, (letter, value)
            assert answer.code in (0, 1, 3, 29)
            assert "Error(" not in (answer.remark or "")
            if letter in "efgh" and value in (str(1 << 63), str(1 << 70)):
                assert answer.code, (letter, value)
            if answer.code:
                assert await stored(client) == before, (letter, value)
    assert (await client.send()).code == 0, "the connection lives"


@pytest.mark.parametrize("code", SENDS)
async def test_long_texts_are_refused_or_mean_nothing(client: RawClient, code: Code) -> None:
    for letter in ("a", "b", "c", "i", "k", "m", "n"):
        answer = await client.ask(code, fields(code, **{letter: LONG}), BODY)
        assert answer.code == 0 or answer.remark, letter
        assert len(answer.remark or "") < 2 * len(LONG)
        if letter == "b" and code not in REPLIES:
            assert (answer.code, "127 is the limit" in (answer.remark or "")) == (29, True)
        if letter == "i" and code in (Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2):
            assert answer.code == 13, answer.remark
    assert (await client.send()).code == 0, "the connection lives"


@pytest.mark.parametrize(
    "properties",
    [
        *("\x01", "\x02", "\x01\x02", "a", "a\x01", "a\x01\x02", "\x01b\x02", "a\x01b", "\x02\x02"),
        *("a\x01b\x02a\x01c\x02", "KEYS\x01\x02", "KEYS\x01  \x02"),
        *("TAGS\x01a||b\x02", "\x00\x01\x00"),
        *("a\x01b\x01c\x02", "ключ\x01ä\x02", "UNIQ_KEY\x01" + "k" * 300 + "\x02"),
    ],
)  # fmt: skip
async def test_malformed_properties_are_stored_as_far_as_they_mean_something(
    client: RawClient, properties: str
) -> None:
    """docs/spec/store.md 1.3: a piece that is no pair is passed over by whoever reads it."""
    offset = await stored(client)
    answer = await client.ask(
        Code.SEND_MESSAGE_V2, fields(Code.SEND_MESSAGE_V2, i=properties), b"b"
    )
    assert answer.code == 0, answer.remark
    pulled = await client.pull(offset=offset)
    assert pulled.code == 0
    assert bodies(pulled.body) == [b"b"]


SEND_BACK = {
    "group": "CG", "offset": "48", "delayLevel": "0", "originMsgId": "0" * 32,
    "originTopic": "T", "unitMode": "false", "maxReconsumeTimes": "16",
}  # fmt: skip
END_TRANSACTION = {
    "producerGroup": "PG", "tranStateTableOffset": "0", "commitLogOffset": "48",
    "commitOrRollback": "8", "fromTransactionCheck": "false", "msgId": "0" * 32,
    "transactionId": "t",
}  # fmt: skip
RECALL = {"producerGroup": "PG", "topic": "T", "recallHandle": "nonsense"}
OTHERS: dict[Code, tuple[dict[str, str], tuple[str, ...], tuple[str, ...]]] = {
    # valid, required, numbers
    Code.CONSUMER_SEND_MSG_BACK: (SEND_BACK, ("group", "offset", "delayLevel"),
                                  ("offset", "delayLevel", "maxReconsumeTimes")),
    Code.END_TRANSACTION: (END_TRANSACTION,
                           ("producerGroup", "tranStateTableOffset", "commitLogOffset",
                            "commitOrRollback"),
                           ("tranStateTableOffset", "commitLogOffset", "commitOrRollback")),
    Code.RECALL_MESSAGE: (RECALL, ("topic", "recallHandle"), ()),
}  # fmt: skip


@pytest.mark.parametrize("code", OTHERS)
async def test_requests_about_messages(client: RawClient, code: Code) -> None:
    valid, required, numbers = OTHERS[code]
    for field in required:
        answer = await client.ask(code, {k: v for k, v in valid.items() if k != field})
        assert answer.code == 29, (field, answer.code, answer.remark)
        assert field in (answer.remark or "")
    for field in numbers:
        for wrong in ("x", "1.5", str(1 << 70), LONG):
            answer = await client.ask(code, {**valid, field: wrong})
            assert (answer.code, field in (answer.remark or "")) == (29, True), (field, answer)
        for value in (*ENDS_OF_LONG[:2], "-2", str(1 << 31)):
            answer = await client.ask(code, {**valid, field: value})
            assert answer.code == 0 or answer.remark, (field, value)
            assert "Error(" not in (answer.remark or ""), answer.remark
    for field in valid:
        answer = await client.ask(code, {**valid, field: LONG})
        assert answer.code == 0 or answer.remark, field
    assert (await client.send()).code == 0, "the connection lives"


async def test_a_signature_is_good_for_its_own_request_only(
    make_brokers: MakeBrokers, tmp_path: Any
) -> None:
    """Wrong, of another body, of other fields, taken over by another account: 16 each."""
    file = tmp_path / "plain_acl.yml"
    accounts = "".join(
        f"- accessKey: {who}\n  secretKey: {who}-secret\n  topicPerms: [T=PUB|SUB]\n"
        for who in ("account-1", "account-2")
    )
    file.write_text(f"accounts:\n{accounts}")
    async with make_brokers(acl_file=str(file)) as brokers:
        client = await brokers.client(await brokers.leader())
        ext = {**fields(Code.SEND_MESSAGE_V2), "AccessKey": "account-1"}
        signed = {**ext, "Signature": sign(ext, b"body", "account-1-secret", 479)}

        async def answer(body: bytes = b"body", **changes: str) -> tuple[int, str]:
            found = await client.ask(Code.SEND_MESSAGE_V2, {**signed, **changes}, body)
            return found.code, found.remark or ""

        assert (await answer())[0] == 0
        for code, remark in (
            await answer(b"other body"),
            await answer(b""),
            await answer(e="1"),
            await answer(b="T2"),
            await answer(extra="field"),
            await answer(AccessKey="account-2"),
            await answer(Signature=""),
            await answer(Signature="AAAAAAAAAAAAAAAAAAAAAAAAAAA="),
            await answer(Signature="ä" * 28),
        ):
            assert (code, "signature" in remark) == (16, True), remark
            assert "secret" not in remark.replace("SecretKey", "")
        # Codes of the same fields do not share a signature, though it covers no code.
        again = await client.ask(Code.UPDATE_AND_CREATE_TOPIC, signed, b"body")
        assert (again.code, "used for request 310" in (again.remark or "")) == (16, True)
        assert (await answer())[0] == 0, "a refusal takes nothing down"
