"""Key-value configuration shared by 1..n name servers, with pysyncobj (R26).

    put ─► majority of name servers has it in its journal ─► every table ─► kvConfig.json of each
    get ─► this server's own table; before pysyncobj is ready: kvConfig.json as it was last written

Routes and the start of a name server never wait for it. The file is a copy for reading only; what
was agreed comes back from the journals, and nothing else is ever put into the table.

A crash leaves the journal (pysyncobj's) and the old or the new file. pysyncobj unpickles what comes
to its port, so a password is always set and every message is proven with it before that.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from cluster.errors import QueueFull, ServerError, ServiceNotAvailable
from cluster.nameserver.kv_config import KEYS_COUNT_MAX, read_tables
from cluster.nameserver.syncobj import FAIL_REASON, ReplDict, SyncObj, SyncObjConf
from commitlog.files.system import OS_FILES
from dledger.membership.proof import secret_error

FILE_NAME = "kvConfig.json"
AGREE_SECONDS_MAX = 3.0  # a client's own limit for a request
SAVE_SECONDS = 1.0  # between two writes of the file; it is for the next start only

ASK_SECONDS = 0.5  # between two questions whether this server has caught up
NO_KEY = ("", "")

_NOT_DONE = frozenset(
    {FAIL_REASON.QUEUE_FULL, FAIL_REASON.MISSING_LEADER, FAIL_REASON.REQUEST_DENIED}
)
_log = logging.getLogger(__name__)

Key = tuple[str, str]
"""Namespace and key."""


class PasswordMissing(ValueError):
    """Name servers share configuration with a secret password only; write one into the file."""


@dataclass(frozen=True, slots=True)
class ReplicationConfig:
    """`address`: host:port of this server for its `peers`, their addresses likewise."""

    address: str
    peers: Sequence[str]
    folder: Path
    password: str


class ReplicatedKvConfig:
    """`KvConfig` on pysyncobj. `close` when done; threads of its own do the work."""

    def __init__(self, config: ReplicationConfig) -> None:
        """Raises PasswordMissing; ImportError without the `cryptography` package."""
        if not config.password:
            raise PasswordMissing(
                "name servers that share configuration need a password; give --kv-password-file"
            )
        if wrong := secret_error(config.password):
            raise PasswordMissing(f"the password of --kv-password-file {wrong}")
        config.folder.mkdir(parents=True, exist_ok=True)
        self._path = config.folder / FILE_NAME
        self._before = _flat(read_tables(self._path)) if self._path.exists() else {}
        self._table: Any = ReplDict()
        self._ready = False
        self._saved: dict[Key, str] = dict(self._before)
        self._saved_at = self._asked_at = 0.0
        self._sync: Any = SyncObj(
            config.address,
            list(config.peers),
            consumers=[self._table],
            conf=SyncObjConf(
                password=config.password,
                bindAddress=config.address,  # its default is every address of the machine
                journalFile=str(config.folder / "journal"),
                fullDumpFile=str(config.folder / "dump"),
                commandsWaitLeader=False,
                useFork=False,
                connectionRetryTime=1.0,
            ),
        )
        self._sync.addOnTickCallback(self._tick)

    @property
    def is_ready(self) -> bool:
        """Has this server's table caught up with the others since it started?"""
        return self._ready

    def get(self, namespace: str, key: str) -> str | None:
        """The value as this server knows it, or None."""
        return self._rows().get((namespace, key))

    def namespace(self, namespace: str) -> Mapping[str, str]:
        """All keys of a namespace."""
        rows = list(self._rows().items())  # at once: another thread changes the table
        return {key: value for (name, key), value in rows if name == namespace}

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Agreed by a majority when it returns. Raises QueueFull, ServiceNotAvailable, ServerError.

        ServerError: it is not known whether it was agreed.
        """
        if len(self._rows()) >= KEYS_COUNT_MAX and (namespace, key) not in self._rows():
            raise QueueFull(f"the configuration holds {KEYS_COUNT_MAX} keys already; delete some")
        await self._agree(self._table.set, (namespace, key), value)

    async def delete(self, namespace: str, key: str) -> None:
        """As `put`; deleting a missing key succeeds."""
        await self._agree(self._table.pop, (namespace, key), None)

    def close(self) -> None:
        """Stop taking part."""
        self._sync.destroy()

    def _rows(self) -> Mapping[Key, str]:
        """To be read in single steps: the table belongs to pysyncobj's thread."""
        rows: Mapping[Key, str] = self._table.rawData() if self._ready else self._before
        return rows

    async def _agree(self, change: Any, key: Key, value: str | None) -> None:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[int] = loop.create_future()

        def settle(reason: int) -> None:
            if not done.done():
                done.set_result(reason)

        def told(result: object, reason: int) -> None:  # in pysyncobj's thread
            loop.call_soon_threadsafe(settle, reason)

        change(key, value, callback=told)
        try:
            async with asyncio.timeout(AGREE_SECONDS_MAX):
                reason = await done
        except TimeoutError:
            raise ServerError(
                "the name servers did not agree in time; it may still happen, look again"
            ) from None
        if reason in _NOT_DONE:
            raise ServiceNotAvailable("too few name servers can be reached; try again shortly")
        if reason != FAIL_REASON.SUCCESS:
            raise ServerError(f"the name servers did not say whether they agreed (reason {reason})")

    def _caught_up(self, result: object, reason: int) -> None:
        """Wait until an empty change is applied here, and with it all changes before it."""
        if reason == FAIL_REASON.SUCCESS:
            self._ready = True

    def _tick(self) -> None:
        """In pysyncobj's thread: notice readiness, and bring the file up to date."""
        now = time.monotonic()
        if not self._ready:
            if now - self._asked_at >= ASK_SECONDS:
                self._asked_at = now
                self._table.pop(NO_KEY, None, callback=self._caught_up)
            return
        if now - self._saved_at < SAVE_SECONDS:
            return
        self._saved_at = now
        rows = dict(self._table.rawData())
        if rows != self._saved:
            try:
                OS_FILES.write_atomic(self._path, orjson.dumps({"configTable": _nested(rows)}))
            except OSError as error:  # the journal has it; the next tick tries again
                _log.warning("%s cannot be written: %s", self._path, error)
                return
            self._saved = rows


def _flat(tables: Mapping[str, Mapping[str, str]]) -> dict[Key, str]:
    return {(name, key): value for name, rows in tables.items() for key, value in rows.items()}


def _nested(rows: Mapping[Key, str]) -> dict[str, dict[str, str]]:
    tables: dict[str, dict[str, str]] = {}
    for (name, key), value in sorted(rows.items()):
        tables.setdefault(name, {})[key] = value
    return tables
