"""Permissions that a request needs, as declared beside each request function.

    publish     PUB of a topic                    consume     SUB of a topic
    know        PUB or SUB of a topic             groups      SUB of a consumer group
    producers   to speak for a producer group     admin       an admin account
    take_over   to take over a producer id        secret      secrets of accounts

A retry or dead-letter topic is its group's, so it needs SUB of the group, to read and to write.
Needs are made of the *decoded* request that the function then gets, so that what is checked is what
is used. They are joined with `|`. `ACCOUNT` needs an account and no right. `secret`: no client gets
it, whatever its account, also where access control is off.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from cluster.core.topics import ACCOUNTS_TOPIC, AUDIT_TOPICS, DLQ_PREFIX, RETRY_PREFIX


class Needs(NamedTuple):
    """All of these together; see the module's text."""

    publish: tuple[str, ...] = ()
    consume: tuple[str, ...] = ()
    know: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    producers: tuple[str, ...] = ()
    admin: bool = False
    take_over: tuple[str, ...] = ()
    secret: bool = False

    def __or__(self, other: Needs) -> Needs:
        return Needs(
            self.publish + other.publish,
            self.consume + other.consume,
            self.know + other.know,
            self.groups + other.groups,
            self.producers + other.producers,
            self.admin or other.admin,
            self.take_over + other.take_over,
            self.secret or other.secret,
        )


ACCOUNT = Needs()
ADMIN = Needs(admin=True)


def to_publish(topic: str) -> Needs:
    """To write messages of a topic."""
    group = group_of(topic)
    return Needs(publish=(topic,)) if group is None else Needs(groups=(group,))


def to_consume(topic: str, group: str | None = None) -> Needs:
    """To see messages or offsets of a topic; as a member of `group` when there is one."""
    owner = group_of(topic)
    groups = () if group is None else (group,)
    if topic == ACCOUNTS_TOPIC:
        return Needs(groups=groups, secret=True)
    if topic in AUDIT_TOPICS:
        return Needs(groups=groups, admin=True)
    if owner is not None:
        return Needs(groups=groups if owner in groups else (owner, *groups))
    return Needs(consume=(topic,), groups=groups)


def to_know(topic: str) -> Needs:
    """To see a topic's settings and sizes, which its producers and its consumers may."""
    group = group_of(topic)
    return Needs(know=(topic,)) if group is None else Needs(groups=(group,))


def in_group(group: str) -> Needs:
    """To be, or to ask for, a member of a consumer group."""
    return Needs(groups=(group,))


def as_producer(group: str) -> Needs:
    """To speak for a producer group: it brings half messages, and decides about them."""
    return Needs(producers=(group,))


def to_take_over(producer: str) -> Needs:
    """To own a producer id that another account owns."""
    return Needs(take_over=(producer,))


def join(needs: Iterable[Needs]) -> Needs:
    """All of them, each name once: a body may name one topic thousands of times."""
    parts = list(needs)
    return Needs(
        tuple(dict.fromkeys(name for part in parts for name in part.publish)),
        tuple(dict.fromkeys(name for part in parts for name in part.consume)),
        tuple(dict.fromkeys(name for part in parts for name in part.know)),
        tuple(dict.fromkeys(name for part in parts for name in part.groups)),
        tuple(dict.fromkeys(name for part in parts for name in part.producers)),
        any(part.admin for part in parts),
        tuple(dict.fromkeys(name for part in parts for name in part.take_over)),
        any(part.secret for part in parts),
    )


def group_of(topic: str) -> str | None:
    """The group that a retry or dead-letter topic belongs to; None for other topics."""
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if topic.startswith(prefix):
            return topic[len(prefix) :]
    return None
