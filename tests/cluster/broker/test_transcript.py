"""The broker's transcript: every request code in scripted states gives the same bytes as before.

A broker that is turned by hand (its clock, log and leaderships are the test's) is asked every
request of the access table. Per request, the bytes that the broker wrote to all clients, the
frames that it passed on, and the entries that it appended to the log are hashed and compared with
`tests/data/golden/broker-transcript.txt`. A commit that only moves code leaves the file equal. A
commit that changes an answer writes the file anew (`TRANSCRIPT=write`) and says so.

    led        the broker leads, everything is committed
    waiting    nobody leads when the request comes; then this broker wins an election
    followed   another node leads; the request is passed on, or answered here
    lost       the lead is lost before anything is committed, and won again
    empty      the broker leads; the request has neither fields nor a body
    garbage    the broker leads; every field is "x", the body is no body
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Set
from pathlib import Path

import pytest

from cluster.protocol.frames import encode_frame
from dledger.core.types import Index

from .access_attempts import ATTEMPTS
from .access_world import Ask
from .hand_world import HandWorld, RecordingClient

GOLDEN = Path(__file__).parents[2] / "data" / "golden" / "broker-transcript.txt"
STATES = ("led", "waiting", "followed", "lost", "empty", "garbage")
#: The log that is turned by hand has no members and no files to ask about.
NEEDS_A_NODE = frozenset({28, 31011, 31012, 31013, 31014, 31015})
#: They put accounts into the log, so they are asked in a world where addresses are free of them.
OF_ACCOUNTS = frozenset({*range(3001, 3011), 31018, 31019})
SECRETS = "secrets"  # such an attempt, too
FREE = "globalWhiteRemoteAddresses: ['*']\n"
GARBAGE = b"\x00no body\xff"


def _ask_in_state(world: HandWorld, state: str, code: int, ask: Ask) -> list[bytes]:
    """What each client was told, and what was passed on."""
    broker = world.broker
    if state == "waiting":
        broker.step_down(None)
    elif state == "followed":
        broker.step_down("n1")
    client = RecordingClient(broker)
    clients = (client, world.boss, world.victim)
    for one in clients:
        one.written.clear()
    broker.forwarded.clear()
    client.ask(code, ask.ext, ask.body)
    broker.turn()
    if state == "lost":
        broker.lose_all()
    if state in ("waiting", "lost"):
        broker.lead()
    broker.commit()
    broker.turn(2.0)
    broker.commit()
    seen = [bytes(one.written) for one in clients]
    # Sorted: connections are a set, in which they announce themselves to a new leader.
    seen += sorted(encode_frame(frame) for _, frame in broker.forwarded)
    client.connection.connection_lost(None)
    if not broker.parts.leadership.leads:
        broker.lead()
    broker.commit()
    return seen


def _entries(world: HandWorld, first: int) -> Iterator[bytes]:
    store = world.broker.log.store
    for index in range(first, store.last.index + 1):
        entry = store.entry(Index(index))
        yield store.id_of(Index(index)).term.to_bytes(8, "big") + bytes(entry.body)


def _transcript(state: str) -> tuple[dict[tuple[int, str], str], list[str]]:
    """A hash per request, and the same in full."""
    free = Path("free.yml")
    free.write_text(FREE)
    asked = ATTEMPTS.keys() - {name for name in ATTEMPTS if name[0] in NEEDS_A_NODE}
    others = {name for name in asked if name[0] in OF_ACCOUNTS or name[1].endswith(SECRETS)}
    hashes, lines = _asked(HandWorld(Path(state)), state, asked - others)
    guarded = HandWorld(Path(f"{state}-accounts"), acl_file=str(free))
    more_hashes, more_lines = _asked(guarded, state, others)
    return hashes | more_hashes, lines + more_lines


def _asked(
    world: HandWorld, state: str, names: Set[tuple[int, str]]
) -> tuple[dict[tuple[int, str], str], list[str]]:
    world.open()
    hashes, lines = {}, []
    for (code, what), attempt in ATTEMPTS.items():
        if (code, what) not in names:
            continue
        ask = world.prepared(attempt)
        if state == "empty":
            ask = Ask()
        elif state == "garbage":
            ask = Ask(dict.fromkeys(ask.ext, "x"), GARBAGE)
        first = world.broker.log.store.last.index + 1
        seen = _ask_in_state(world, state, code, ask)
        digest = hashlib.sha256()
        for part in (*seen, b"log", *_entries(world, first)):
            digest.update(len(part).to_bytes(8, "big") + part)
            lines.append(f"{state} {code} {what}: {part!r}")
        hashes[code, what] = digest.hexdigest()[:12]
    world.broker.close()
    return hashes, lines


def test_transcript_of_every_request_is_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the broker's settings name its folder
    monkeypatch.setattr(os, "getpid", lambda: 4711)  # keys of messages hold it
    rows: dict[tuple[int, str], list[str]] = {}
    whole = list[str]()
    for state in STATES:
        hashes, lines = _transcript(state)
        whole += lines
        for name, value in hashes.items():
            rows.setdefault(name, []).append(value)
    text = "".join(
        f"{code:<6} {what:<38} {' '.join(values)}\n" for (code, what), values in rows.items()
    )
    text = (
        f"{'code':<6} {'what':<38} {' '.join(f'{state:<12}' for state in STATES).rstrip()}\n{text}"
    )
    (tmp_path / "transcript.txt").write_text("\n".join(whole))
    if os.environ.get("TRANSCRIPT") == "write":
        GOLDEN.write_text(text)
    changed = [
        (old, new)
        for old, new in zip(GOLDEN.read_text().splitlines(), text.splitlines(), strict=True)
        if old != new
    ]
    assert not changed, f"compare {tmp_path / 'transcript.txt'} with the one of the commit before"
