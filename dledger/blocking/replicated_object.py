"""The common part of the blocking objects: their node."""

from __future__ import annotations

from typing import Generic, TypeVar

from dledger.blocking.lifetime import Lifetime
from dledger.blocking.node import ReplicatedNode
from dledger.objects import replicated_object as _replicated_object

C = TypeVar("C")
R = TypeVar("R")


class ReplicatedObject(Lifetime, Generic[C, R]):
    """`with` starts and stops its node."""

    _inner: _replicated_object.ReplicatedObject[C, R]

    @property
    def node(self) -> ReplicatedNode[C, R]:
        """For its status, its members and reads of one's own."""
        return ReplicatedNode.of(self._thread, self._inner.node)
