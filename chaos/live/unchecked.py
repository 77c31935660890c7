"""Lists the checks for which a run has no data, with the reason, so that none counts as passed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from chaos.checkers.availability import Window
from chaos.checkers.copies import Copies
from chaos.checkers.elections import Seen
from chaos.checkers.membership import Change, untold
from chaos.history import Kind, Operation, Outcome

_OF_READS = ("stale-read", "nonmonotonic-read")
_OF_POLLS = (
    *("poll-skip", "nonmonotonic-poll", "int-poll-skip", "int-nonmonotonic-poll", "never-read"),
)
_OF_GROUPS = ("offset-back", "offset-ahead", "offset-lost")
_OF_LOGS = (
    *("lost-prefix", "lost-middle", "lost-postfix", "duplicate", "precommitted-read"),
    *("offset-hole", "diverged", "log-mismatch", "never-read", "not-converged"),
    *("delayed-lost", "committed-lost", "commit-stuck"),
)
_OF_END = ("not-converged", "not-up-again")
_OF_DELAYED = ("delayed-early", "delayed-late", "delayed-lost")
_OF_HALVES = ("half-visible", "committed-lost", "commit-stuck")
_OF_TRACES = ("election-safety", "term-back", "commit-back", "leader-truncated")
_OF_COPIES = ("log-mismatch", "bytes-differ", "unreadable-replica", "leader-completeness")
_OF_CHANGES = ("membership-split", "two-changes")


def not_checked(
    history: Sequence[Operation],
    trace: Sequence[Seen],
    copies: Copies | None,
    windows: Mapping[str, Sequence[Window]],
    *,
    replicas: Mapping[str, object],
    ended: bool,
    told: Sequence[Seen] = (),
) -> dict[str, str]:
    """Name of an anomaly → why this run could not have shown it.

    `windows`: those that are long enough for "unavailable" and for "no-progress". `replicas`: those
    with a final log that was read. `ended`: False for a run that died. `told`: states that nodes
    reported when they changed; `trace` also has samples.
    """
    found = of_clients(history) | of_logs(replicas)

    def unless(there: object, names: Iterable[str], reason: str) -> None:
        if not there:
            found.update(dict.fromkeys(names, reason))

    unless(ended, _OF_END, "the run did not end, so its replicas were not seen to become equal")
    unless(trace, _OF_TRACES, "no node told its state")
    if any(op.kind is Kind.SEEK for op in history):
        begins = any(one.begins is not None for one in trace)
        unless(begins, ("poll-skip",), "readers were sent on; no node told where its log began")
    unless(any(one.vote for one in trace), ("vote-changed",), "no node told a vote")
    unless(copies, _OF_COPIES, "the replicas' files were not compared")
    for name, long_enough in windows.items():
        unless(long_enough, (name,), "no time with a majority was long enough to judge")
    changes = None if copies is None else copies.changes
    if changes is None:
        unless(changes, _OF_CHANGES, "the group's changes were not read")
    else:
        unless(len(changes) > 1, _OF_CHANGES, "the group never changed, as far as logs go back")
    if "two-changes" not in found:
        _changes_told(found, changes or (), trace, told)
    return found


def _changes_told(
    found: dict[str, str], changes: Sequence[Change], trace: Sequence[Seen], told: Sequence[Seen]
) -> None:
    """Note a change that its leader did not report; nodes of earlier versions gave only samples."""
    if any(one.changing is not None for one in told):
        if missed := untold(changes, told):
            found["two-changes"] = f"no leader told of the change at entry {missed[0]}"
    elif not any(one.no_op is not None and one.configuration is not None for one in trace):
        found["two-changes"] = "no leader told its configuration"


def of_logs(replicas: Mapping[str, object]) -> dict[str, str]:
    """As `not_checked`, for the checks that need the replicas' logs."""
    return {} if replicas else dict.fromkeys(_OF_LOGS, "no replica's log was read")


def of_clients(history: Sequence[Operation]) -> dict[str, str]:
    """As `not_checked`, for the checks that need the clients' operations."""
    done = {op.kind for op in history if op.outcome is Outcome.OK}
    got = any(op.kind is Kind.POLL and op.values for op in history)
    rules = (
        (Kind.READ in done, _OF_READS, "no client read the end of a queue"),
        (got, _OF_POLLS, "no consumer got a message"),
        ({Kind.COMMIT, Kind.FETCH} & done, _OF_GROUPS, "no group had a position"),
        (Kind.DELAY in done, _OF_DELAYED, "no client sent a delayed message"),
        (Kind.HALF in done, _OF_HALVES, "no client began a transaction"),
    )
    return {name: reason for there, names, reason in rules if not there for name in names}
