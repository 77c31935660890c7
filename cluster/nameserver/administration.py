"""Requests of administrators to a name server: 216, 224, 304, 205/327, 318/319, 322.

Source: docs/spec/remoting.md 2.1.

A wipe of write permission is kept with the key-value configuration, so it outlives registrations
of the broker and restarts, until it is taken back.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from cluster.errors import InvalidRequest, NotFound, RemoteProtocolError
from cluster.nameserver.access import Rule
from cluster.nameserver.kv_config import SETTINGS, WIPED_WRITE_PERM, KvConfig
from cluster.nameserver.registry import Registry
from cluster.protocol.admin_headers import (
    AddedResponse,
    BrokerNameRequest,
    ClusterTopicsRequest,
    DataVersionResponse,
    WipedResponse,
)
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import EMPTY, Frame, response
from cluster.protocol.headers import DeleteTopicRequest, UnregisterBrokerRequest, decode, encode
from cluster.protocol.json_body import dump, load
from cluster.protocol.text_body import lines_of
from cluster.protocol.topics import encode_topic_list

_log = logging.getLogger(__name__)


class Served(NamedTuple):
    """One request code: its rule of access, and the function that answers, now or later."""

    rule: Rule
    function: Callable[[Frame], Frame | Awaitable[Frame]]


class Administration:
    """Answers administrators. `settings` never change; both tables are the answer to 319.

    `live`: settings, "true" or "false", that 318 changes; what it set is in `kv_config`.
    """

    def __init__(
        self,
        registry: Registry,
        kv_config: KvConfig,
        clock: Callable[[], float],
        settings: Mapping[str, str],
        live: Mapping[str, str],
    ) -> None:
        self._registry, self._kv_config, self._clock = registry, kv_config, clock
        self._settings, self._live = settings, live
        self.served: dict[int, Served] = {
            RequestCode.DELETE_TOPIC_IN_NAMESRV: Served(Rule.ADMIN, self._delete_topic),
            RequestCode.GET_TOPICS_BY_CLUSTER: Served(Rule.LOOK, self._cluster_topics),
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: Served(Rule.LOOK, self._system_topics),
            RequestCode.GET_NAMESRV_CONFIG: Served(Rule.LOOK, self._config),
            RequestCode.UPDATE_NAMESRV_CONFIG: Served(Rule.ADMIN, self._update_config),
            RequestCode.QUERY_DATA_VERSION: Served(Rule.LOOK, self._data_version),
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: Served(Rule.ADMIN, self._wipe),
            RequestCode.ADD_WRITE_PERM_OF_BROKER: Served(Rule.ADMIN, self._add),
        }

    def _delete_topic(self, frame: Frame) -> Frame:
        request = decode(DeleteTopicRequest, frame.ext)
        self._registry.delete_topic(request.topic, request.cluster_name or None)
        return response(frame)

    def _cluster_topics(self, frame: Frame) -> Frame:
        request = decode(ClusterTopicsRequest, frame.ext)
        return response(
            frame, 0, EMPTY, encode_topic_list(self._registry.topics_of_cluster(request.cluster))
        )

    def _system_topics(self, frame: Frame) -> Frame:
        """Names of clusters and brokers, which are topics, too, and one broker's address."""
        brokers = self._registry.brokers(self._clock())
        names = sorted({name for item in brokers for name in (item.cluster, item.broker_name)})
        address = next((item.leader for item in brokers if item.leader), None)
        return response(frame, 0, EMPTY, dump({"brokerAddr": address, "topicList": names}))

    def _config(self, frame: Frame) -> Frame:
        found = {**self._settings, **self._live_now()}
        lines = [f"{key}={value}\n" for key, value in sorted(found.items())]
        return response(frame, 0, EMPTY, "".join(lines).encode())

    def is_on(self, key: str) -> bool:
        """Is a live setting on now?"""
        return (self._kv_config.get(SETTINGS, key) or self._live[key]) == "true"

    def _live_now(self) -> dict[str, str]:
        return {key: str(self.is_on(key)).lower() for key in self._live}

    async def _update_config(self, frame: Frame) -> Frame:
        """Take live settings; other known keys are set at the start. An unknown one is ignored and
        logged, as in RocketMQ.
        """
        live = self._live_now()
        for line in lines_of(frame.body):
            key, equals, value = line.partition("=")
            if not equals:
                raise InvalidRequest(
                    f"the line {line[:40]!r} is not of the form key=value; write it so"
                )
            if key in live:
                if value not in ("true", "false"):
                    raise InvalidRequest(f"{key} is {value[:40]!r}; send true or false")
                live[key] = value
            elif key not in self._settings:
                _log.warning("unknown name server setting %.100s ignored", key)
            elif self._settings[key] != value:
                raise InvalidRequest(f"{key} is set when the name server starts; restart it")
        now = self._live_now()
        for key, value in live.items():
            if value != now[key]:
                await self._kv_config.put(SETTINGS, key, value)
        return response(frame)

    def _data_version(self, frame: Frame) -> Frame:
        """322: has the broker's table changed since it registered?"""
        request = decode(UnregisterBrokerRequest, frame.ext)
        try:
            bean = load(frame.body, "a data version")
            version = int(bean["timestamp"]), int(bean["counter"])
        except (RemoteProtocolError, KeyError, TypeError, ValueError) as error:
            raise InvalidRequest(f"the body is no data version: {error}") from None
        timestamp, counter = self._registry.data_version(request.broker_name)
        changed = not self._registry.is_newest(request.broker_name, version)
        body = dump({"counter": counter, "stateVersion": 0, "timestamp": timestamp})
        return response(frame, 0, encode(DataVersionResponse(changed)), body)

    async def _wipe(self, frame: Frame) -> Frame:
        name = self._known(frame)
        count = len(self._registry.topics_of_broker(name))
        await self._kv_config.put(WIPED_WRITE_PERM, name, "1")
        return response(frame, 0, encode(WipedResponse(count)))

    async def _add(self, frame: Frame) -> Frame:
        name = self._known(frame)
        count = len(self._registry.topics_of_broker(name))
        await self._kv_config.delete(WIPED_WRITE_PERM, name)
        return response(frame, 0, encode(AddedResponse(count)))

    def _known(self, frame: Frame) -> str:
        name = decode(BrokerNameRequest, frame.ext).broker_name
        names = {broker.broker_name for broker in self._registry.brokers(self._clock())}
        if name not in names:
            raise NotFound(f"no broker name {name[:255]} is registered; check the name")
        return name
