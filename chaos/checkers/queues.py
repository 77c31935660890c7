"""Many queues: the history is split by queue, each part judged by itself, the counts added.

A history is linearizable when each object's part is (Herlihy and Wing, locality), so this loses
nothing, and it keeps every check O(n log n) of its own queue.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from chaos.checkers.anomaly import Anomaly, Log
from chaos.checkers.beginnings import with_deleted
from chaos.checkers.consumers import find_consumer_disorder
from chaos.checkers.groups import find_group_disorder
from chaos.checkers.levels import Blackout, take_back
from chaos.checkers.offsets import find_inconsistent_offsets
from chaos.checkers.seen import find_unseen, find_wrong_polls
from chaos.checkers.verdict import Verdict, Word, count, judge
from chaos.history import Operation

#: queue → its messages, on one replica
Replica = Mapping[str, Log]


def judge_queues(
    history: Sequence[Operation],
    replicas: Mapping[str, Replica],
    *,
    unfinished: Iterable[str] = (),
    acked_min: int = 1,
    everything_read: bool = False,
    blackouts: Sequence[Blackout] = (),
    begins: int = 0,
) -> Verdict:
    """Judge a history of appends, reads, polls, commits over any number of queues.

    `everything_read`: consumers were meant to read every queue from its beginning, so a message
    that all of them passed by is an anomaly. `blackouts`: when appends that were acknowledged in
    memory may have been taken back. `begins`: address below which messages were deleted; the logs
    hold none of those.
    """
    open_values = tuple(unfinished)
    history, taken = take_back(history, replicas.values(), blackouts)
    parts: dict[str, list[Operation]] = defaultdict(list)
    for op in history:
        parts[op.log].append(op)
    names = set(parts).union(*replicas.values())
    anomalies: list[Anomaly] = []
    acked = len(taken)
    for name in sorted(names):
        logs = {
            node: with_deleted(parts[name], replica.get(name, ()), begins)
            for node, replica in replicas.items()
        }
        one = judge(parts[name], logs, unfinished=open_values, acked_min=0)
        acked += one.acked
        found = [*one.anomalies, *_of_consumers(parts[name], logs, everything_read)]
        anomalies += [_in_queue(name, anomaly) for anomaly in dict.fromkeys(found)]
    word = Word.INVALID if anomalies else Word.VALID if acked >= acked_min else Word.UNKNOWN
    return replace(count(word, acked, anomalies), taken_back=len(taken))


def _of_consumers(
    history: Sequence[Operation], logs: Mapping[str, Log], everything_read: bool
) -> list[Anomaly]:
    found = find_inconsistent_offsets(history, logs)
    for log in list(logs.values())[:1]:  # divergence is told apart from this
        found += find_wrong_polls(history, log)
        found += find_consumer_disorder(history, log)
        found += find_group_disorder(history, log)
        if everything_read:
            found += find_unseen(history, log)
    return found


def _in_queue(name: str, anomaly: Anomaly) -> Anomaly:
    return Anomaly(anomaly.name, f"{name}: {anomaly.detail}") if name else anomaly
