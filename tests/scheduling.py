"""Which worker runs which tests: whole files, also after a worker has died.

xdist starts another worker for one that died. Its scheduler by scope then has three faults, seen in
its release 3.8: the test that killed the worker is given out again; so are files whose tests all
have ended, as a list of no tests; and the new worker is given one file, once. A worker asks for
more when a test has ended, and it keeps its last test back until it is told that none follows. So
a new worker with at most one test waited for ever, and the run with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdist.scheduler import LoadScopeScheduling

from tests.suite_order import scope_of

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController


class ScopeScheduling(LoadScopeScheduling):
    """Workers take what `scope_of` says as a whole; a test that killed its worker has ended."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def remove_node(self, node: WorkerController) -> str | None:
        """Take a worker out; the test at which it died, None when it had ended all of its own."""
        units = self.assigned_work[node]
        left = {
            scope: {test: False for test, has_ended in unit.items() if not has_ended}
            for scope, unit in units.items()
        }
        crashed = next((test for unit in left.values() for test in unit), None)
        if crashed is not None:
            del left[self._split_scope(crashed)][crashed]
        del self.assigned_work[node]
        self.workqueue.update({scope: unit for scope, unit in left.items() if unit})
        for other in self.nodes:
            self._reschedule(other)
        return crashed

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        """Note what a worker has collected. Raises RuntimeError when it differs from the run's."""
        if self.collection is not None and list(collection) != self.collection:
            raise RuntimeError(f"{node.gateway.id}, started later, has collected other tests")
        super().add_node_collection(node, collection)

    def _reschedule(self, node: WorkerController) -> None:
        if self.collection is None or node not in self.registered_collections:
            return  # it, or another, still collects; `schedule` is called when all have
        super()._reschedule(node)
        # With one test a worker waits until it has the next one, or is told that none follows.
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)
