"""The interface of a watcher of simulated nodes, and the one-line form of an exception."""

from __future__ import annotations

from typing import Protocol, TypeVar

from dledger.core.messages import Message
from dledger.core.types import NodeId

#: The kind of node that is watched.
Watched = TypeVar("Watched", contravariant=True)


class Observer(Protocol[Watched]):
    """Is called at each step of a node, at each message sent, and for each violation."""

    def started(self, node: Watched) -> None:
        """A process has come up on the node; its replica has handled no event yet."""

    def stepped(self, node: Watched) -> None:
        """The node has handled one event and carried out its effects."""

    def sending(self, node: Watched, to: NodeId, message: Message) -> None:
        """The node is about to send the message."""

    def violation(self, name: str, detail: str) -> None:
        """An invariant does not hold. Raises an error that ends the run."""


def describe(error: BaseException) -> str:
    """Type, text and the innermost place of an exception."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return f"{type(error).__name__}: {error}"
    name = trace.tb_frame.f_code.co_filename.rpartition("/")[2]
    return f"{type(error).__name__}: {error} ({name}:{trace.tb_lineno})"
