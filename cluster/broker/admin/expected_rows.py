"""Changes that count only while the row is as its sender has read it (compare and set).

An administrator's tool reads a row, and sends it back with one field changed. Of two that do so at
the same time, the second would take the first one's field back. So the request names the row that
was read (`expected`, a digest of it); the leader refuses it when the row is another one by now, or
when another change of it is in the log and not applied yet. The tool reads again and repeats.
Requests without it (stock tools) change the row as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cluster.broker.kernel.write.rows_in_log import RowsInLog
from cluster.errors import IllegalOperation
from cluster.protocol.json_body import ABSENT, row_digest


def check_expected(
    in_log: RowsInLog, name: str, row: Mapping[str, Any] | None, expected: str | None
) -> None:
    """Raises IllegalOperation unless `row`, as it is applied here, is the expected one."""
    if expected is None:
        return
    if in_log.is_changing(name):
        raise IllegalOperation(
            f"{name} is being changed just now; read its settings again, then repeat the change"
        )
    if expected != (ABSENT if row is None else row_digest(row)):
        raise IllegalOperation(
            f"{name} was changed by another administrator since its settings were read; read "
            "them again, then repeat the change"
        )
