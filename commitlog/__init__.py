"""The local store: messages in files, found again quickly. See README.md.

Names are loaded when they are first used, so that a program which needs one codec does not import
the whole store.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from commitlog.config import FlushMode, StoreConfig
    from commitlog.errors import (
        MessageTooLarge,
        StoreConfigError,
        StoreDamaged,
        StoreError,
        StoreFailed,
        StoreLayoutError,
        StoreLocked,
        StoreUsageError,
    )
    from commitlog.records.hosts import Host
    from commitlog.records.message import Message
    from commitlog.store.store import MessageStore, PutResult

__all__ = [
    "FlushMode",
    "Host",
    "Message",
    "MessageStore",
    "MessageTooLarge",
    "PutResult",
    "StoreConfig",
    "StoreConfigError",
    "StoreDamaged",
    "StoreError",
    "StoreFailed",
    "StoreLayoutError",
    "StoreLocked",
    "StoreUsageError",
]

_MODULES = {
    "FlushMode": "config",
    "Host": "records.hosts",
    "Message": "records.message",
    "MessageStore": "store.store",
    "PutResult": "store.store",
    "StoreConfig": "config",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(_import_module(f"{__name__}.{_MODULES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value
