"""Builds the feature from the ports that it needs; the wiring gets its request handlers from it."""

from __future__ import annotations

from cluster.broker.access.accounts import requests, rocketmq
from cluster.broker.access.audit import requests as audit_requests
from cluster.broker.access.audit.keeping import Keeping
from cluster.broker.access.audit.restored import RestoreNote
from cluster.broker.access.audit.trail import AuditTrail
from cluster.broker.access.ports import AccessPorts
from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.environment import BrokerEnvironment
from cluster.broker.kernel.events.leadership import Leadership
from cluster.broker.kernel.events.leadership_parts import LeadershipParts
from cluster.broker.kernel.net.requests import bind
from cluster.broker.kernel.ports import LogPort
from cluster.broker.kernel.read.reader import RecordReader
from cluster.broker.kernel.write.state_writer import StateWriter
from cluster.core.apply import AppliedState
from cluster.security.access_file import Access

#: Its requests, by file.
TABLES = (requests.ROUTES, rocketmq.ROUTES, audit_requests.ROUTES)


class AccessControl:
    """Accounts of the log, and the audit log.

    `audit` puts an entry in front of each change that an administrator asks for; `keeping` writes
    entries again before their log files go.
    """

    def __init__(
        self,
        environment: BrokerEnvironment,
        log: LogPort,
        state: AppliedState,
        writer: StateWriter,
        derived: DerivedStore,
        reader: RecordReader,
        leadership: Leadership,
        leadership_parts: LeadershipParts,
        access: Access,
    ) -> None:
        config, owned = environment.config, environment.owned
        self._ports = AccessPorts(
            access=access,
            config=config,
            derived=derived,
            leadership=leadership,
            live=environment.live,
            log=log,
            now_ms=environment.clock.time_ms,
            owned=owned,
            reader=reader,
            state=state,
            writer=writer,
        )
        self.audit = AuditTrail(writer, leadership, node=config.node_id, now=owned.time)
        self.keeping = leadership_parts.add(Keeping(self._ports), Keeping.leadership_ended)
        note = RestoreNote(self._ports, self.audit, environment.files, config.root)
        leadership.on_change(note.look)
        self.handlers = bind(self._ports, *TABLES)
