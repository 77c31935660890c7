"""Entries of the audit log at the beginning and at the end of a backup.

A backup is made all the same where the log takes no entry: it is for bad days, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import click

from cluster.client.admin.audit import record_action
from cluster.commands.connecting import Reach, connected
from cluster.commands.errors import CommandError
from cluster.errors import ClusterError

ANSWER_SECONDS_MAX = 10.0


@contextlib.contextmanager
def audited(
    running: Callable[[], tuple[Reach, Sequence[str]]],
    place: str,
    every: float | None,
    facts: Callable[[], Mapping[str, Any]],
) -> Iterator[Callable[[], None]]:
    """Write an entry in front of the backup that runs within, and one behind, also when it fails.

    Yields a function to be called before each round. The first of these that finds the cluster
    running writes the entry in front: a backup may be started before its cluster.

    Args:
        running: how the cluster is reached, and the broker names that are copied; none when it is
            stopped.
        facts: asked at the end for what was copied.
    """
    words = () if every is None else ("--every", f"{every:g}")
    command = shlex.join(["dledger", "backup", "run", place, *words])
    found: list[tuple[Reach, Sequence[str]]] = []

    def told(verb: str, details: Mapping[str, Any]) -> None:
        for reach, brokers in found:
            _tell(_recorded(reach, brokers, verb, f"backup {place}", command, details))

    def look() -> None:
        if found:
            return
        reach, brokers = running()
        if brokers:
            found.append((reach, brokers))
            told("backup begin", {})

    try:
        with _ended_by_signal():
            yield look
    except BaseException as error:
        stopped = isinstance(error, KeyboardInterrupt | SystemExit)
        why = "interrupted" if stopped else str(error) or type(error).__name__
        told("backup end", {**facts(), "ended_by": why})
        raise
    told("backup end", facts())


@contextlib.contextmanager
def _ended_by_signal() -> Iterator[None]:
    """SIGTERM, by which service managers end a program, leaves as Ctrl-C does, with code 143.

    In another thread than the main one nothing changes: Python takes signals in that one alone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, _: object) -> NoReturn:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _tell(recording: Coroutine[Any, Any, str]) -> None:
    try:
        unsaid = asyncio.run(recording)
    except (ClusterError, CommandError, OSError, TimeoutError) as error:
        unsaid = f"the audit log has no entry of this: {str(error) or 'no answer came'}"
    if unsaid:
        click.echo(unsaid, err=True)


async def _recorded(
    reach: Reach,
    brokers: Sequence[str],
    verb: str,
    target: str,
    command: str,
    details: Mapping[str, Any],
) -> str:
    async with asyncio.timeout(ANSWER_SECONDS_MAX), connected(reach) as client:
        for broker in brokers:
            unsaid = await record_action(
                client.instance, verb, target, command, details, broker=broker
            )
            if unsaid:
                return unsaid
    return ""
