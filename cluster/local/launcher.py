"""Start and stop a cluster of processes on this machine.

    create   choose addresses, write the profile              (once)
    start    every member that does not run; format folders   (format: only before the first start)
    ready    every node's /readyz says that it serves clients now (admin/readiness.py)
    stop     our own children only, asked first, killed after ten seconds

All methods block; call them from a thread where there is an event loop.
"""

from __future__ import annotations

import contextlib
import fcntl
import secrets
import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cluster.local import admin, nameserver_files, one_address, plan, processes, profile
from cluster.local.node_files import (
    check_sections,
    fresh_secrets,
    node_sections,
    write_node_file,
)
from cluster.local.node_log import message_of
from cluster.local.profile import BROKER, NAMESERVER, Member, Profile
from commitlog.advice import Advised

# Ready takes about two seconds; a machine busy with other things gets ten times that.
READY_SECONDS_MAX = 60.0  # a machine that does much else needs 20 s for three nodes
POLL_SECONDS = 0.02
NODE_MODULE = "cluster.local.node_main"
RELAY_PORT = "broker.relay_port"


class LauncherError(Advised):
    """The cluster could not be started or stopped as asked; the text gives one thing to try."""

    advice = "fix what it names, then dledger up again"
    retriable = False


class LocalCluster:
    """A cluster in one folder.

    Args:
        root: its folder.
        tied: its processes end when this one does (tests, the demo); `dledger up` leaves them.

    Attributes:
        node_module: what runs a node; fault injection has one with hooks in it.
        environment: node → variables beside those of this process.
        spawn: starts one of its processes.
    """

    def __init__(self, root: Path, *, tied: bool = False) -> None:
        self.root = root
        self.tied = tied
        self.node_module = NODE_MODULE
        self.environment: dict[str, dict[str, str]] = {}
        self.spawn = processes.spawn
        self.profile = profile.load(root)

    @classmethod
    def create(
        cls,
        root: Path,
        members: Sequence[Member],
        settings: Mapping[str, str] | None = None,
        *,
        tied: bool = False,
    ) -> LocalCluster:
        """Write the profile of a new cluster; `up` starts it.

        Its nodes prove themselves to each other and to name servers with secrets that are drawn
        here, unless the settings have some.

        Raises LauncherError when the folder has a cluster already, SettingsError for a setting
        that no node would accept.
        """
        made = cls.planned(root, members, settings)
        profile.save(root, made)
        if len(made.nameservers) > 1:
            nameserver_files.write_secret(root)
        return cls(root, tied=tied)

    @staticmethod
    def planned(
        root: Path, members: Sequence[Member], settings: Mapping[str, str] | None = None
    ) -> Profile:
        """The profile that `create` writes, without writing it; before that no node can start.

        Raises as `create`.
        """
        if profile.exists(root):
            raise LauncherError(f"{root} has a cluster already; dledger down --purge removes it")
        given = dict(settings or {})
        nameserver_files.settings_of(given)
        if (port := given.get(RELAY_PORT, "")).isdigit():  # else no node would accept it
            members = plan.with_relay_port(members, int(port))
        made = Profile(f"local-{secrets.token_hex(4)}", tuple(members), fresh_secrets() | given)
        for member in made.of_kind(BROKER):
            check_sections(node_sections(root, made, member))
        return made

    # -- what there is

    def folder(self, name: str) -> Path:
        """A process's folder."""
        return self.root / self.profile.member(name).process

    @property
    def nameserver(self) -> str:
        """Address for clients."""
        return ";".join(self.profile.nameservers)

    @property
    def brokers(self) -> list[str]:
        """The nodes: processes that hold replicas."""
        return [member.name for member in self.profile.processes() if member.kind == BROKER]

    def is_running(self, name: str) -> bool:
        """True while the process runs that the folder of the node, or name server, names."""
        return processes.running(self.folder(name)) is not None

    def running(self) -> list[str]:
        """Names of the nodes and name servers that run, in the profile's order."""
        return [member.name for member in self.profile.processes() if self.is_running(member.name)]

    def statuses(self) -> dict[str, dict[str, Any] | None]:
        """Each replica's status; None for one that does not answer."""
        return admin.statuses(self.profile)

    def leader(self, group: str = "") -> str | None:
        """The node that leads a group's newest term any of its replicas reports."""
        leaders = [
            (int(status["term"]), self.profile.member(name).process)
            for name, status in self.statuses().items()
            if status and status["role"] == "leader" and self.profile.member(name).group == group
        ]
        return max(leaders)[1] if leaders else None

    # -- start

    def up(self, ready_seconds_max: float | None = None) -> list[str]:
        """Start the processes that do not run, wait until all are ready; returns those started."""
        with self._locked():
            started = [name for name in self._names() if not self.is_running(name)]
            self.check_ports(started)
            for name in started:
                self._start(name)
            self.wait_ready(ready_seconds_max)
            if not self.profile.formatted:
                self.profile = replace(self.profile, formatted=True)
                profile.save(self.root, self.profile)
        return started

    def start(self, name: str, *, joins: bool = False) -> None:
        """Start one member that was stopped or killed; does not wait.

        `joins`: it lost its folder, and a new one is formatted; `dledger member replace` takes it
        back in.
        """
        self.check_ports([name])
        self._start(name, joins=joins)

    def add_node(self, name: str, host: str = "") -> None:
        """Another node, formatted to join; `dledger member add` takes it in. Does not wait.

        `host`: its address; without it the next one. One group per cluster only. Raises
        LauncherError for a name that is taken.
        """
        if name in self.brokers:
            raise LauncherError(f"the cluster has a node {name} already; choose another name")
        if len(self.profile.groups()) > 1:
            raise LauncherError(
                "this cluster has several groups, and nodes are added to clusters of one only; "
                "make another cluster with dledger up --root DIR -n NUMBER"
            )
        members = self.profile.members
        relays = any(member.relay for member in members)
        member = (
            plan.broker(name, host, relays=relays)
            if host
            else one_address.next_broker(name, members)
        )
        profile.save(self.root, replace(self.profile, members=(*members, member)))
        self.profile = profile.load(self.root)
        self.check_ports([name])
        self._start(name, joins=True)

    def forget_node(self, name: str) -> None:
        """Stop a node that was removed from its group, and take it out of the profile."""
        processes.stop([self.folder(name)])
        members = tuple(m for m in self.profile.members if m.process != name)
        profile.save(self.root, replace(self.profile, members=members))
        self.profile = profile.load(self.root)
        shutil.rmtree(self.root / name, ignore_errors=True)

    def _start(self, name: str, *, joins: bool = False) -> None:
        member = self.profile.member(name)
        folder = self.folder(name)
        if member.kind == NAMESERVER:
            arguments = nameserver_files.arguments(self.root, self.profile, member)
        else:
            arguments = [self.node_module]
            for replica in self.profile.replicas(name):
                file = write_node_file(self.root, self.profile, replica)
                arguments += ["--config", str(file)]
            if joins:
                arguments.append("--join")
            elif not self.profile.formatted:
                arguments.append("--format")
        environment = self.environment.get(member.name)
        processes.start(
            folder, arguments, tied=self.tied, environment=environment, spawn=self.spawn
        )

    def _names(self) -> list[str]:
        return [member.name for member in self.profile.processes()]

    def check_ports(self, names: Sequence[str]) -> None:
        """Raises LauncherError if a port is taken, with the process that holds it."""
        for member in (replica for name in names for replica in self.profile.replicas(name)):
            name = member.name
            for purpose, address in member.listens().items():
                if not plan.can_bind(address):
                    raise LauncherError(
                        f"{name} cannot take {address} for its {purpose} port: "
                        f"{processes.holder_of(address)} has it; end that, or make the cluster "
                        "with --any-port"
                    )

    def wait_ready(self, seconds_max: float | None = None) -> float:
        """Wait until every member is ready; returns the seconds it took.

        Raises LauncherError, with the member's last words, when one ended or time ran out.
        """
        seconds_max = READY_SECONDS_MAX if seconds_max is None else seconds_max
        started = time.monotonic()
        waiting = list(self.profile.members)
        token = self.profile.admin_token
        while waiting:
            asked = [(member, admin.not_ready(member, token)) for member in waiting]
            waiting = [member for member, why in asked if why]
            for member in waiting:
                if not self.is_running(member.name):
                    raise LauncherError(self._last_words(member, "ended while it was starting"))
            if waiting and time.monotonic() - started > seconds_max:
                member, why = next((member, why) for member, why in asked if why)
                late = f"was not ready after {seconds_max:.0f} s ({why})"
                raise LauncherError(self._last_words(member, late))
            if waiting:
                time.sleep(POLL_SECONDS)
        return time.monotonic() - started

    def _last_words(self, member: Member, what: str) -> str:
        lines = processes.log_tail(self.folder(member.name)).strip().splitlines()
        said = f": {message_of(lines[-1])}" if lines else ""
        return f"{member.name} {what}{said} (all of it: {self.folder(member.name)}/log.txt)"

    # -- stop and break

    def down(self) -> list[str]:
        """Stop everything that runs; returns the members that had to be killed."""
        with self._locked():
            brokers = [self.folder(name) for name in self.brokers]
            killed = processes.stop(brokers)
            # Name servers last: the brokers say goodbye to them.
            others = [self.folder(m.name) for m in self.profile.of_kind(NAMESERVER)]
            killed += processes.stop(others)
        return [folder.name for folder in killed]

    def purge(self) -> None:
        """Stop everything and delete the folder. There is no way back."""
        self.down()
        shutil.rmtree(self.root)

    def kill(self, name: str) -> None:
        """SIGKILL, and wait until it is gone."""
        processes.kill([self.folder(name)])

    def kill_all(self) -> None:
        """SIGKILL every broker in one go, and wait until all are gone."""
        processes.kill([self.folder(name) for name in self.brokers])

    def pause(self, name: str) -> None:
        """Sends SIGSTOP; its connections stay open. No effect if it is not running."""
        processes.send(self.folder(name), signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Sends SIGCONT, so that a paused process goes on. No effect if it is not running."""
        processes.send(self.folder(name), signal.SIGCONT)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """One `up` or `down` at a time per root."""
        with (self.root / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LauncherError(
                    f"another dledger up or down works on {self.root} at the moment; wait for it"
                ) from None
            yield
