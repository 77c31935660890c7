"""Small parts: long polls, leadership, checkpoint file, refusals, settings."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster import errors as service
from cluster.broker.config import BrokerConfig
from cluster.broker.consume.long_poll import LongPolls
from cluster.broker.kernel.apply import checkpoint
from cluster.broker.kernel.events.leadership import Leadership, Serving
from cluster.broker.kernel.net.refusals import to_service_error
from cluster.protocol.codes import code_for
from commitlog import errors as store
from commitlog.files.system import OS_FILES
from dledger import errors as log
from dledger.core.types import NodeId, Role, Term


class Worked:
    """What a thread has done, as a future that its loop tells of in a later turn."""

    def __init__(self, loop: Loop, found: object) -> None:
        self._loop, self._found = loop, found

    def add_done_callback(self, call: Callable[[Worked], object]) -> None:
        self._loop.call_soon(call, self)

    def cancelled(self) -> bool:
        return False

    def result(self) -> object:
        return self._found


class Loop:
    """A clock and its timers, turned by hand; what is given to a thread is done at once."""

    def __init__(self) -> None:
        self.now = 0.0
        self._timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, due: float, call: Callable[..., None], *args: object) -> None:
        self._timers.append((due, functools.partial(call, *args)))

    def call_later(self, delay: float, call: Callable[..., None], *args: object) -> None:
        self.call_at(self.now + delay, call, *args)

    def call_soon(self, call: Callable[..., None], *args: object) -> None:
        self.call_at(self.now, call, *args)

    def run_in_executor(self, _: None, work: Callable[[], object]) -> Worked:
        return Worked(self, work())

    def run_to(self, now: float) -> None:
        while due := sorted((t for t in self._timers if t[0] <= now), key=lambda t: t[0]):
            self._timers.remove(due[0])
            self.now = max(self.now, due[0][0])
            due[0][1]()
        self.now = now


# -- long polls ------------------------------------------------------------------------------------


class Pull:
    def __init__(self, queue_id: int = 0, offset: int = 0, *, matches: bool = True) -> None:
        self.topic, self.queue_id, self.offset = "T", queue_id, offset
        self.matches, self.settled = matches, False
        self.woken = self.expired = 0

    def wake(self) -> None:
        self.woken += 1
        if self.matches:
            self.settled = True
        else:
            self.offset += 1

    def expire(self) -> None:
        self.expired += 1
        self.settled = True


def polls(loop: Loop, count_max: int = 10) -> LongPolls:
    return LongPolls(
        count_max,
        now=loop.time,
        call_at=loop.call_at,
        leads=lambda: True,
        ended=lambda pulls: None,
    )


def test_a_pull_is_woken_by_its_queue_and_only_once() -> None:
    loop = Loop()
    parked, mine, other = polls(loop), Pull(0), Pull(1)
    parked.suspend(mine, 5.0)
    parked.suspend(other, 5.0)
    parked.queue_grew("T", 0, 1)
    parked.queue_grew("T", 0, 2)
    assert (mine.woken, other.woken) == (1, 0)
    assert parked.count == 1
    loop.run_to(10)
    assert (mine.expired, other.expired) == (0, 1)
    assert parked.count == 0


def test_a_pull_that_does_not_match_stays_and_moves_on() -> None:
    loop = Loop()
    parked, pull = polls(loop), Pull(matches=False)
    parked.suspend(pull, 5.0)
    parked.queue_grew("T", 0, 1)
    parked.queue_grew("T", 0, 1)
    assert (pull.woken, pull.offset) == (1, 1), "what was looked at is not looked at again"
    pull.matches = True
    parked.queue_grew("T", 0, 2)
    assert pull.settled


def test_pulls_expire_in_the_order_of_their_times() -> None:
    loop = Loop()
    parked, late, early = polls(loop), Pull(), Pull()
    parked.suspend(late, 9.0)
    parked.suspend(early, 2.0)
    loop.run_to(3)
    assert (early.expired, late.expired) == (1, 0)
    loop.run_to(9)
    assert late.expired == 1


def test_parked_pulls_are_bounded_and_can_be_dropped() -> None:
    parked = polls(Loop(), 2)
    pulls = [Pull(), Pull()]
    assert all(parked.suspend(pull, 1.0) for pull in pulls)
    assert not parked.suspend(Pull(), 1.0)
    pulls[0].settled = True
    assert parked.drop_all() == pulls[1:]
    assert parked.count == 0


# -- leadership ------------------------------------------------------------------------------------


def leadership(loop: Loop, **settings: object) -> Leadership:
    config = BrokerConfig("n0", Path("unused"), **settings)  # type: ignore[arg-type]
    return Leadership(config, now=loop.time, call_later=loop.call_later, call_soon=loop.call_soon)


def test_a_leader_serves_only_when_it_is_ready() -> None:
    loop = Loop()
    lead = leadership(loop)
    lead.role_changed(Role.LEADER, Term(5), NodeId("n0"))
    assert lead.serving is Serving.WAITING
    lead.ready(Term(4))
    assert not lead.leads, "an older leadership's no-op"
    lead.ready(Term(5))
    assert lead.leads
    lead.role_changed(Role.FOLLOWER, Term(6), None)
    assert lead.serving is Serving.WAITING
    lead.ready(Term(5))
    assert not lead.leads
    lead.role_changed(Role.FOLLOWER, Term(6), NodeId("n1"))
    assert lead.serving is Serving.FOLLOWING


def test_requests_wait_for_a_leader_but_not_for_ever() -> None:
    loop = Loop()
    lead = leadership(loop, leader_wait_seconds=1.0, leader_wait_count_max=2)
    heard: list[tuple[str, bool]] = []
    assert lead.hold(lambda late: heard.append(("a", late)))
    loop.run_to(0.6)
    assert lead.hold(lambda late: heard.append(("b", late)))
    assert not lead.hold(lambda late: heard.append(("c", late))), "bounded"
    loop.run_to(1.1)
    assert heard == [("a", True)]
    lead.role_changed(Role.FOLLOWER, Term(1), NodeId("n1"))
    loop.run_to(1.2)
    assert heard == [("a", True), ("b", False)]


def test_the_wait_for_a_leader_begins_when_nobody_leads() -> None:
    """A handing over that came to nothing kept a request; then the leadership ended."""
    loop = Loop()
    lead = leadership(loop, leader_wait_seconds=1.0)
    lead.role_changed(Role.LEADER, Term(1), NodeId("n0"))
    lead.ready(Term(1))
    heard: list[bool] = []
    assert lead.hold(heard.append)
    loop.run_to(0.9)
    lead.role_changed(Role.FOLLOWER, Term(2), None)
    loop.run_to(1.8)
    assert heard == []
    loop.run_to(2.0)
    assert heard == [True]


def test_a_request_that_comes_before_those_held_are_served_waits_behind_them() -> None:
    loop = Loop()
    lead = leadership(loop)
    served: list[str] = []
    assert lead.hold(lambda late: served.append("held"))
    lead.role_changed(Role.LEADER, Term(1), NodeId("n0"))
    assert not lead.is_releasing, "nobody serves yet"
    lead.ready(Term(1))
    assert lead.is_releasing
    assert lead.hold(lambda late: served.append("came later"))
    loop.run_to(0.1)
    assert served == ["held", "came later"]
    assert not lead.is_releasing


def test_requests_that_wait_are_bounded_in_bytes() -> None:
    loop = Loop()
    lead = leadership(loop, leader_wait_seconds=1.0, leader_wait_bytes_max=100)
    assert lead.hold(lambda late: None, 60)
    assert not lead.hold(lambda late: None, 60)
    assert lead.hold(lambda late: None, 40)
    loop.run_to(1.1)
    assert lead.hold(lambda late: None, 100), "room again when they are answered"
    lead.role_changed(Role.FOLLOWER, Term(1), NodeId("n1"))
    loop.run_to(1.2)
    lead.role_changed(Role.FOLLOWER, Term(2), None)
    assert lead.hold(lambda late: None, 100)


def test_a_new_leader_settles_in_before_it_names_members() -> None:
    loop = Loop()
    lead = leadership(loop)
    loop.run_to(100)
    lead.role_changed(Role.LEADER, Term(1), NodeId("n0"))
    lead.ready(Term(1))
    assert lead.settled_in() > 0.5
    loop.run_to(102)
    assert lead.settled_in() == 0


# -- checkpoint file -------------------------------------------------------------------------------


def test_a_checkpoint_is_whole_or_not_used(tmp_path: Path) -> None:
    path = tmp_path / checkpoint.FILE_NAME
    found: list[bytes] = []
    assert not checkpoint.load(OS_FILES, path, found.append)
    data = checkpoint.encode(b'{"state":1}')
    path.write_bytes(data)
    assert checkpoint.load(OS_FILES, path, found.append)
    assert found == [b'{"state":1}']
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        assert not checkpoint.load(OS_FILES, path, found.append), f"byte {at} is not checked"
    for size in range(len(data)):
        path.write_bytes(data[:size])
        assert not checkpoint.load(OS_FILES, path, found.append)
    assert len(found) == 1


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind", "stock_code"),
    [
        (log.NotLeader("n1"), service.NotLeader, 14),
        (log.Transferring("x"), service.PlannedMove, 1500),
        (log.QueueFull("x"), service.QueueFull, 2),
        (log.SequenceGap("p", 1, 2), service.SequenceGap, 14),
        (log.OutcomeUnknown("x"), service.LeaderLostWhileWaiting, 14),
        (log.EntryTooLarge("x"), service.MessageTooLarge, 13),
        (log.NodeFailed("x"), service.ServiceNotAvailable, 14),
        (store.MessageTooLarge("body", 2, 1), service.MessageTooLarge, 13),
        (store.StoreUsageError("x"), service.InvalidRequest, 29),
        (store.StoreDamaged("x"), service.ServiceNotAvailable, 14),
        (OSError("x"), service.ServiceNotAvailable, 14),
        (KeyError("x"), service.ServerError, 1),
    ],
)
def test_errors_keep_their_certainty(
    error: Exception, kind: type[service.ClusterError], stock_code: int
) -> None:
    told = to_service_error(error, "127.0.0.1:1")
    assert type(told) is kind
    assert code_for(told, 479) == stock_code
    if isinstance(error, log.DledgerError):
        assert told.outcome.value == error.outcome.value


def test_the_leaders_address_is_told() -> None:
    told = to_service_error(log.NotLeader("n1"), "127.0.0.1:1")
    assert isinstance(told, service.NotLeader)
    assert told.leader == "127.0.0.1:1"


# -- settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"node_id": ""}, ["node_id"]),
        ({"peers": {"n0": "x:1"}}, ["n0"]),
        ({"body_size_max": 16 << 20}, ["body_size_max", "frame_size_max"]),
        ({"in_flight_bytes_max": 1 << 20}, ["in_flight_bytes_max", "body_size_max"]),
        ({"queue_file_size": 21}, ["queue_file_size"]),
        ({"dispatch_chunk_max": 9999}, ["dispatch_chunk_max", "dispatch_lag_max"]),
        ({"pull_count_max": 0}, ["pull_count_max"]),
        ({"disk_full_ratio": 1.5}, ["disk_full_ratio"]),
    ],
)
def test_impossible_settings_name_both_values(
    settings: dict[str, object], names: list[str]
) -> None:
    values = {"node_id": "n0", "root": Path("x"), **settings}
    with pytest.raises(ValueError, match=names[0]) as raised:
        BrokerConfig(**values).validate()  # type: ignore[arg-type]
    assert all(name in str(raised.value) for name in names)
