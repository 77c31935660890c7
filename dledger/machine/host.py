"""Host: many groups in one process, behind one port and with as many threads as for one.

    Host ── port, threads for disk work ──┬── group "orders"   node with a machine, or a log
    (one a process)                       ├── group "prices"     each with its folder, its log,
                                          └── …                  its leader and its failures

A group behaves as one in a process of its own: a machine that raises or a log that is damaged ends
that group's node here, and no other. Nodes of a group are hosts: those that `members` names.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

from commitlog.files.system import OS_FILES, FileSystem
from dledger.config import RaftConfig
from dledger.durable import identity
from dledger.errors import LogUsageError, NodeFailed
from dledger.machine.node import ReplicatedNode
from dledger.machine.settings import MachineSettings
from dledger.machine.state_machine import ReplicatedStateMachine
from dledger.replica.ports import StateMachine
from dledger.runtime import folder_names
from dledger.runtime.clock import Clock, clock_for
from dledger.runtime.futures import until_done
from dledger.runtime.host_parts import HostParts
from dledger.runtime.lifetime import Lifetime
from dledger.runtime.parts import Parts
from dledger.runtime.replicated_log import ReplicatedLog

C = TypeVar("C")
R = TypeVar("R")
Opened = TypeVar("Opened", bound=Lifetime)


class Host(Lifetime):
    """`async with` listens and, at the end, closes every group that is open."""

    def __init__(
        self,
        config: RaftConfig,
        *,
        quiescence: bool = True,
        files: FileSystem = OS_FILES,
        clock: Clock | None = None,
    ) -> None:
        """`config`: of every group here, but for its name and its folder.

        `config.peers` are the hosts, `config.data_dir` is where each group has a folder of its
        name; `config.group` is not used. `quiescence`: groups without traffic send no heartbeats,
        as far as the hosts of their other nodes have it on, too; False: each group always does.
        Raises ValueError.
        """
        config.validate()
        self._quiescence = quiescence
        self.config, self._files = config, files
        self._clock = clock or clock_for(config)
        self._parts: HostParts | None = None
        self._opened: dict[str, Lifetime] = {}
        self._formats = asyncio.Lock()

    async def start(self) -> None:
        """Listen, and start the threads. Raises OSError when the address is taken."""
        assert self._parts is None, "a Host is started once"
        parts = HostParts(self.config, self._clock, self._group_closed, quiescence=self._quiescence)
        await parts.start()
        self._parts = parts

    async def close(self) -> None:
        """Close the port and the groups that are open; a second call has no effect.

        When all are closed it raises the first of their errors: NodeFailed of a disk that does not
        come back, OSError of one that refuses the last sync. A call that is cancelled closes
        them all the same, before it ends.
        """
        parts, self._parts = self._parts, None
        if parts is None:
            return
        closing = asyncio.gather(self._close(parts), return_exceptions=True)
        await until_done(closing)
        for failure in closing.result():
            if failure is not None:
                raise failure

    async def _close(self, parts: HostParts) -> None:
        opened = list(self._opened.values())
        try:
            await parts.leave()  # first, else peers would be refused group by group, and told
            # Side by side: each may have a disk that hangs, and takes its time.
            ended = await asyncio.gather(*(one.close() for one in opened), return_exceptions=True)
            ended += await parts.end_guests()
        finally:
            await parts.close()
            self._opened.clear()
        for error in ended:
            if error is not None:
                raise error

    # -- groups ------------------------------------------------------------------------------------

    async def open(
        self,
        name: str,
        machine: ReplicatedStateMachine[C, R],
        *,
        create: bool = False,
        members: Collection[str] | None = None,
        settings: MachineSettings | None = None,
    ) -> ReplicatedNode[C, R]:
        """Start this host's node of the group `name`; its `close` ends it, or the host's.

        Args:
            create, settings: as of a ReplicatedNode.
            members: the hosts that the group is formatted with, the same on each; None: all.

        Raises LogUsageError for a group that is open and a name that can be no folder's, ValueError
        for members that are no hosts, NodeFailed when the host does not run, and as
        `ReplicatedNode.start`.
        """
        config = self._free(name, members)
        if create:
            await self._format(config)
        node = ReplicatedNode(
            config,
            machine,
            settings=settings,
            files=self._files,
            clock=self._clock,
            extend=self.share,
        )
        return await self._start(name, node)

    async def open_object(
        self,
        name: str,
        kind: Callable[..., Opened],
        *,
        members: Collection[str] | None = None,
        **options: Any,
    ) -> Opened:
        """As `open`, for a class of `dledger.objects`; `options`: its own."""
        config = self._free(name, members)
        if options.pop("create", False):
            await self._format(config)
        ports = {"files": self._files, "clock": self._clock, "extend": self.share}
        return await self._start(name, kind(config, **ports, **options))

    async def open_log(
        self,
        name: str,
        machine: StateMachine | None = None,
        *,
        create: bool = False,
        members: Collection[str] | None = None,
    ) -> ReplicatedLog:
        """As `open`, for a plain log."""
        config = self._free(name, members)
        if create:
            await self._format(config)
        log = ReplicatedLog(
            config, machine, files=self._files, clock=self._clock, extend=self.share
        )
        return await self._start(name, log)

    def config_of(self, name: str, members: Collection[str] | None = None) -> RaftConfig:
        """The settings of one group here. Raises LogUsageError, ValueError."""
        host = self.config
        if not folder_names.is_possible(name) or not (
            folder_names.is_free(name) or self._is_here(Path(host.data_dir, name))
        ):
            raise LogUsageError(
                f"{name!r:.300} cannot be a group's name, as its folder has the same; "
                f"{folder_names.RULE}"
            )
        wanted = set(host.peers if members is None else members)
        if strange := wanted - host.peers.keys():
            raise ValueError(f"members names {', '.join(sorted(strange))}, which is not in peers")
        found = dataclasses.replace(
            host,
            group=name,
            data_dir=Path(host.data_dir, name),
            seed=None if host.seed is None else crc32(f"{host.seed} {name}".encode()),
            peers={node: at for node, at in host.peers.items() if node in wanted},
            dial={node: at for node, at in host.dial.items() if node in wanted},
        )
        found.validate()
        return found

    def share(self, parts: Parts) -> Parts:
        """For the `extend` of a log or node that is made by the user. Raises NodeFailed.

        Close that before this host: what is left at the host's end stops with NodeFailed.
        """
        return replace(parts, host=self._running())

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the groups that run here, failed ones that are not closed yet included."""
        return () if self._parts is None else self._parts.port.groups

    # -- inside ------------------------------------------------------------------------------------

    def _running(self) -> HostParts:
        if self._parts is None:
            raise NodeFailed("this host does not run; use `async with` or `start`")
        return self._parts

    def _is_here(self, folder: Path) -> bool:
        """Has a former release, which allowed more names, made it?"""
        return self._files.exists(folder / identity.FILE_NAME)

    def _free(self, name: str, members: Collection[str] | None) -> RaftConfig:
        config, port = self.config_of(name, members), self._running().port
        port.check_free(name)
        return config

    async def _format(self, config: RaftConfig) -> None:
        """In a thread: it takes many syncs, and the other groups go on meanwhile."""

        def work() -> None:
            if not Path(config.data_dir).exists():
                ReplicatedLog.format(config, files=self._files)

        async with self._formats:  # who asks for the same group twice finds it whole
            done = asyncio.ensure_future(asyncio.to_thread(work))
            await until_done(done)
            done.result()

    def _group_closed(self, name: str) -> None:
        self._opened.pop(name, None)

    async def _start(self, name: str, opened: Opened) -> Opened:
        await opened.start()
        self._opened[name] = opened
        return opened
