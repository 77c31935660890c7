"""BrokerNode: one replica of one group, with everything around it, started and stopped in order.

    start   lock · log · derived state · replica ║ client port · replica takes part · name servers
    stop    hand leadership over · tell clients · name servers · client port · state saved · replica

The client port of a node that comes back opens when a leader is known (client_ports.py).
Nothing acknowledged depends on a clean stop; it makes the next start and the others' takeover
quick.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import logging
import os
import secrets
import socket
from typing import Any

from cluster.broker.admin_state import snapshot
from cluster.broker.client_ports import ClientPorts, bind_again
from cluster.broker.components import BrokerComponents
from cluster.broker.config import BrokerConfig
from cluster.broker.kernel.apply.log_beginning import LogBeginning
from cluster.broker.kernel.apply.machine import Unbound
from cluster.broker.kernel.environment import BrokerEnvironment
from cluster.broker.kernel.net.server import bind
from cluster.broker.peer_addresses import PeerAddresses
from cluster.broker.tracing import end_spans
from cluster.broker.wiring import wire
from cluster.core.feature_level import LEVEL
from commitlog.address import port_of, split_address
from commitlog.files.system import OS_FILES, FileSystem
from commitlog.records import accel
from commitlog.records.hosts import Host
from commitlog.records.message_layout import RECORD_EXTRA_SIZE_MAX
from commitlog.store.layout import StoreLayout, lock_store, remove_abort, write_abort
from dledger.config import RaftConfig
from dledger.core.configuration import Configuration
from dledger.errors import DledgerError
from dledger.log.log_start import LogStart
from dledger.runtime.clock import Clock, clock_for
from dledger.runtime.driver import Driver
from dledger.runtime.group_clock import GroupClock
from dledger.runtime.opening import format_folder, open_folder
from dledger.runtime.owned import ENDED, Owned

HAND_OVER_SECONDS_MAX = 1.0  # an election without a hand-over takes about as long
ANSWERS_LOOKS_MAX, ANSWERS_LOOK_SECONDS = 100, 0.005  # for what was passed on

_log = logging.getLogger(__name__)


class BrokerNode:
    """See the module's text. `async with` starts and stops it.

    `raft.data_dir` must have been formatted (`BrokerNode.format`), once in the node's life.
    """

    def __init__(
        self,
        config: BrokerConfig,
        raft: RaftConfig,
        *,
        files: FileSystem = OS_FILES,
        clock: Clock | None = None,
    ) -> None:
        config.validate()
        raft.validate()
        if config.body_size_max + RECORD_EXTRA_SIZE_MAX > raft.entry_size_max:
            raise ValueError(
                f"body_size_max {config.body_size_max} and {RECORD_EXTRA_SIZE_MAX} bytes around it "
                f"do not fit into entry_size_max {raft.entry_size_max}"
            )
        self.config, self.raft = config, raft
        self._files = files
        self._clock = GroupClock.of(raft.node_id, clock or clock_for(raft))
        self._parts: BrokerComponents | None = None
        self._driver: Driver | None = None
        self._failed: asyncio.Future[BaseException] | None = None
        self._owned = Owned(self._died)
        self._stack = contextlib.AsyncExitStack()
        self._stopping = self._is_clean = self._is_saved = False
        self._reopening: asyncio.Task[None] | None = None
        self.address = ""

    @classmethod
    def format(cls, raft: RaftConfig, *, joins: bool = False, files: FileSystem = OS_FILES) -> None:
        """Make `raft.data_dir` the folder of a new replica; never done by itself (R6).

        `joins`: of one that a running group will take in (`dledger member add`).

        Raises LogUsageError without a cluster id, StoreLayoutError when the folder is in use.
        """
        format_folder(raft, joins=joins, files=files)

    # -- start and end ------------------------------------------------------------------------

    async def start(self) -> None:
        """Recover, listen, take part.

        Raises StoreLocked, NotFormatted, WrongIdentity, HardStateLost, LogDamaged,
        StoreLayoutError, OSError (a port is taken). What was opened is closed again then.
        """
        loop = asyncio.get_running_loop()
        if self._failed is None or self._failed.done():
            self._failed = loop.create_future()
        accel.load()  # 0.05 s and 7 MB; not later, when elections and clients would wait for it
        try:
            await self._enter(self._stack)
        except BaseException:
            await self._close_all()
            raise
        _log.info("%s serves %s on %s", self.config.node_id, self.config.broker_name, self.address)

    async def _enter(self, stack: contextlib.AsyncExitStack) -> None:
        """Enter all parts from top to bottom; the one entered last is left first."""
        layout = StoreLayout(self.config.root)
        stack.callback(lock_store(self._files, self.config.root).release)
        self._files.make_dirs(layout.staging)
        write_abort(self._files, layout, os.getpid())
        stack.push(functools.partial(self._mark_clean, layout))
        listen = bind if self._reopening is None else bind_again
        client_host, client_port = self.config.listen_host, self._port()
        bound = listen(client_host, client_port)
        if bound is not None:
            client_host, client_port = bound.getsockname()[:2]
            self.address = str(Host(client_host, client_port))
        try:
            parts, driver = self._open()
        except BaseException:
            if bound is not None:
                bound.close()
            raise
        stack.push_async_callback(end_spans, parts.log)
        stack.callback(parts.derived.close)
        stack.push_async_callback(driver.stop)
        stack.callback(parts.derived.stop)  # the driver closes the log that it reads
        stack.push_async_callback(self._save, parts, driver)
        stack.push_async_callback(parts.server.close)
        stack.push_async_callback(parts.links.close)
        stack.push_async_callback(self._take_no_more, parts)
        stack.callback(parts.topic_routes.close)
        ports = ClientPorts(
            parts.server,
            parts.leadership,
            self._owned,
            hand_over=lambda: parts.log.transfer(None, _ignored),
            relay_changed=lambda: parts.registrar.announce(),
        )
        stack.push_async_callback(ports.close)
        ports.add(client_host, client_port, bound)
        if self.config.relay_port:
            relay = self.config.listen_host, self.config.relay_port
            ports.add(*relay, listen(*relay), relays=True)
        was_here = driver.hard.state.term > 0
        await ports.start(comes_back=was_here and len(self.raft.peers) > 1)
        await driver.start()
        self._owned.when_done(driver.failed, lambda failed: self._fail(failed.result()))
        await stack.enter_async_context(parts.admin.running())
        parts.registrar.start()
        stack.push_async_callback(parts.registrar.close)
        parts.living.look.start()
        stack.callback(parts.living.look.stop)
        parts.notified.look.start()
        stack.callback(parts.notified.look.stop)

    def _port(self) -> int:
        """The client port; one that was free at the first start stays ours."""
        known = port_of(self.address) if self.address else 0
        return self.config.listen_port or known

    def _state_sent(self, _start: LogStart, _state: bytes) -> None:
        """The leader's state and an empty log behind it have replaced ours, on disk (prefix.py).

        Everything that stands on the log is opened again; what it knew is of no use any more.
        """
        self.parts.derived.stop()
        self._reopening = self._owned.create_task(self._reopen())

    async def _reopen(self) -> None:
        _log.info("%s: opened again on the state that its leader sent", self.config.node_id)
        await self._close_all()
        self._parts = self._driver = None
        try:
            await self.start()
        except Exception as error:  # whatever it is, this node cannot go on
            self._fail(error)

    def _open(self) -> tuple[BrokerComponents, Driver]:
        advertised = self._advertised()
        self.raft = dataclasses.replace(self.raft, service=str(advertised))
        peers = PeerAddresses(self.config.node_id, self.config.peers, self.raft.peers)
        storage = open_folder(self.raft, Unbound(), files=self._files, clock=self._clock)
        try:
            around = BrokerEnvironment(
                dataclasses.replace(self.config, peers=peers),
                advertised,
                self._files,
                self._clock,
                self._owned,
                secrets.randbits(32),
                LogBeginning(storage.log, storage.snapshots, is_sent=len(self.raft.peers) > 1),
            )
            parts = wire(around, storage.log)
            bound = dataclasses.replace(
                storage,
                machine=parts.machine,
                member=storage.member._replace(level=LEVEL),
                applied=parts.derived.applied,
                restore=self._state_sent,
                noop_body=parts.machine.noop_body,
                members_body=parts.machine.members_body,
                settle_turn=parts.appender.flush,
            )
            driver = Driver(self.raft, bound, self._clock, self._owned)
            self._follow(driver, peers, parts)
        except BaseException:
            storage.close(False)
            raise
        self._parts, self._driver = parts, driver
        parts.log.bind(driver)
        return parts, driver

    @staticmethod
    def _follow(driver: Driver, peers: PeerAddresses, parts: BrokerComponents) -> None:
        """Addresses and registrations follow the group."""

        def changed(configuration: Configuration) -> None:
            peers.follow(configuration)
            parts.registrar.announce()

        peers.follow(driver.members)
        driver.members_changed.append(changed)

    def _advertised(self) -> Host:
        """Where clients reach this node, as an IP: message ids hold addresses. Raises OSError."""
        host, port = split_address(self.config.advertised or self.address)
        return Host(host if ":" in host else socket.gethostbyname(host), port)

    async def close(self) -> None:
        """Stop in order; idempotent."""
        if self._stopping:
            return
        self._stopping = True
        if self._reopening is not None:
            await self._reopening
        parts, driver = self._parts, self._driver
        if parts is not None and driver is not None and driver.replica.failure is None:
            await self._hand_over(parts)
            await self._drain(parts)
        await self._close_all(clean=True)

    async def _hand_over(self, parts: BrokerComponents) -> None:
        """Log outstanding offsets, and let another node lead before this one goes."""
        if not parts.leadership.leads:
            return
        await self._log_offsets(parts)
        if len(self.raft.peers) == 1:
            return
        done: asyncio.Future[DledgerError | None] = asyncio.get_running_loop().create_future()

        def handed(error: DledgerError | None) -> None:
            if not done.done():
                done.set_result(error)

        try:
            parts.log.transfer(None, handed)
            async with asyncio.timeout(HAND_OVER_SECONDS_MAX):
                error = await done
        except (DledgerError, TimeoutError) as failed:
            error = failed if isinstance(failed, DledgerError) else None
        if error is not None:
            _log.info("leadership was not handed over: %s", error)

    async def _log_offsets(self, parts: BrokerComponents) -> None:
        """Log the offsets of the last second, which are not in the log yet."""
        logged: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

        def done(error: Exception | None) -> None:
            if not logged.done():
                logged.set_result(error)

        parts.offsets.flush_all(done)
        try:
            async with asyncio.timeout(HAND_OVER_SECONDS_MAX):
                error: Exception | None = await logged
        except TimeoutError:
            error = TimeoutError(f"no answer of the others within {HAND_OVER_SECONDS_MAX} s")
        if error is not None:
            _log.warning(
                "the last offsets of consumers may not be logged (%s); they may get some messages "
                "again",
                error,
            )

    async def _drain(self, parts: BrokerComponents) -> None:
        """Tell clients to leave while their requests are still passed on; so none is cut off."""
        going = parts.server.who_understands_go_away()
        if going and len(self.raft.peers) > 1 and self.config.drain_seconds > 0:
            parts.router.leaving.update(going)
            await asyncio.sleep(self.config.drain_seconds)

    async def _take_no_more(self, parts: BrokerComponents) -> None:
        """Refuse requests, and wait for the sends that were passed on before.

        Just before the connections are reset: until then requests are passed on.
        """
        await parts.server.take_no_more()
        for _ in range(ANSWERS_LOOKS_MAX if self._is_clean else 0):
            if not parts.links.open_sends:
                break
            await asyncio.sleep(ANSWERS_LOOK_SECONDS)

    async def _close_all(self, *, clean: bool = False) -> None:
        """Leave all that was entered; `clean`: save the state, mark the folder, if all is well."""
        stack, self._stack = self._stack, contextlib.AsyncExitStack()
        self._is_clean, self._is_saved = clean, False
        await stack.aclose()

    async def _save(self, parts: BrokerComponents, driver: Driver) -> None:
        """Log outstanding offsets and save the state, so that the next start is quick."""
        if not self._is_clean or driver.replica.failure is not None:
            return
        if parts.leadership.leads:
            await self._log_offsets(parts)  # no other node leads: what was asked until now
        parts.derived.catch_up()
        await parts.housekeeping.checkpoint()
        await parts.housekeeping.export()
        self._is_saved = True

    def _mark_clean(
        self, layout: StoreLayout, failure: type[BaseException] | None, *_: object
    ) -> None:
        """`failure`: of a part that was left before; the next start is careful then."""
        if self._is_saved and failure is None:
            remove_abort(self._files, layout)

    async def __aenter__(self) -> BrokerNode:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- failing -----------------------------------------------------------------------------------

    async def failed(self) -> BaseException:
        """Return when the node cannot go on, with the reason; never while it works."""
        assert self._failed is not None, "not started"
        return await asyncio.shield(self._failed)

    def _died(self, error: BaseException) -> None:
        """Before there is a driver, which is told from then on."""
        _log.critical("%s: %s before it took part", self.config.node_id, ENDED, exc_info=error)
        self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if self._driver is not None and self._driver.replica.failure is None:
            self._driver.replica.fail(f"{type(error).__name__}: {error}")
        if self._failed is not None and not self._failed.done():
            self._failed.set_result(error)

    # -- looking -----------------------------------------------------------------------------------

    @property
    def parts(self) -> BrokerComponents:
        """Everything inside; for tests and for the admin pages."""
        assert self._parts is not None, "not started"
        return self._parts

    @property
    def is_open(self) -> bool:
        """Whether there is anything to look at: not before `start`, nor while it opens again."""
        return self._parts is not None

    def status(self) -> dict[str, Any]:
        """A picture for people and programs; see admin_state.py."""
        return snapshot(self.parts, self.address, failed=self._failure_text())

    def _failure_text(self) -> str:
        if self._failed is None or not self._failed.done():
            return ""
        return str(self._failed.result())


def _ignored(_error: DledgerError | None) -> None:
    """Ignores an error: the request is repeated while there is a reason for it."""
