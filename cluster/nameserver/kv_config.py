"""Key-value configuration that a name server owns itself: the port, and one JSON file behind it.

    {"configTable":{"ORDER_TOPIC_CONFIG":{"orders":"broker-a:4"}}}       RocketMQ's kvConfig.json

The file is replaced whole (written aside, synced, renamed), so a crash leaves the old one or the
new one. Nothing that must survive for messages' sake is in here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import orjson

from cluster.errors import ClusterError, QueueFull
from commitlog.files.system import OS_FILES

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
"""Namespace of the order configuration that routes carry."""

WIPED_WRITE_PERM = "DLEDGER_WIPED_WRITE_PERM"
"""Namespace of broker names that nobody shall write to (205, 327)."""

SETTINGS = "DLEDGER_NAMESERVER"
"""Namespace of settings that are changed while name servers run (318), the same on each."""

NOTIFY_ROUTES = "notifyRoutes"
"""Of them: whether retry topics of stock clients have notification routes (notify_routes.py)."""

RELAYS = "relays"
"""Of them: whether routes of stock clients have relays (relays.py), "true" or "false"."""

KEYS_COUNT_MAX = 10_000
"""All namespaces together; each put writes the whole file."""


class KvConfigUnreadable(ClusterError):
    """The file exists and is no key-value configuration; correct it or move it away."""

    advice = "correct the file or move it away"


class KvConfig(Protocol):
    """Small, replaceable store of texts. Reads are local and at once; writes may take a while."""

    def get(self, namespace: str, key: str) -> str | None:
        """The value; None for a key that is not set."""
        ...

    def namespace(self, namespace: str) -> Mapping[str, str]:
        """All keys of a namespace; empty when there is none."""
        ...

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Durable (and, when replicated, agreed) when it returns.

        Raises:
            ClusterError: it could not be stored; `outcome` says whether that is certain.
        """
        ...

    async def delete(self, namespace: str, key: str) -> None:
        """As `put`; deleting a missing key succeeds."""
        ...


class LocalKvConfig:
    """One name server's own file; with `path` None, memory only."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._tables = read_tables(path) if path is not None and path.exists() else {}
        self._lock = asyncio.Lock()

    def get(self, namespace: str, key: str) -> str | None:
        """The value, or None."""
        return self._tables.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> Mapping[str, str]:
        """All keys of a namespace."""
        return dict(self._tables.get(namespace, {}))

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Set one key; on disk when it returns. Raises QueueFull, OSError."""
        tables = {name: dict(table) for name, table in self._tables.items()}
        tables.setdefault(namespace, {})[key] = value
        if sum(len(table) for table in tables.values()) > KEYS_COUNT_MAX:
            raise QueueFull(f"the configuration holds {KEYS_COUNT_MAX} keys already; delete some")
        await self._store(tables)

    async def delete(self, namespace: str, key: str) -> None:
        """Remove one key; on disk when it returns. Raises OSError."""
        tables = {name: dict(table) for name, table in self._tables.items()}
        tables.get(namespace, {}).pop(key, None)
        await self._store({name: table for name, table in tables.items() if table})

    async def _store(self, tables: dict[str, dict[str, str]]) -> None:
        async with self._lock:
            if self._path is not None:
                data = orjson.dumps({"configTable": tables})
                await asyncio.to_thread(OS_FILES.write_atomic, self._path, data)
            self._tables = tables


def read_tables(path: Path) -> dict[str, dict[str, str]]:
    """Namespace → key → value of a file. Raises OSError, KvConfigUnreadable."""
    try:
        tables = orjson.loads(path.read_bytes())["configTable"]
        return {
            str(name): {str(key): str(value) for key, value in table.items()}
            for name, table in tables.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise KvConfigUnreadable(
            f"{path} is no key-value configuration ({error!r}); correct it or move it away"
        ) from error
