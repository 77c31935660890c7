"""The requests of a name server: one rule and one function per code.

Source: docs/spec/remoting.md 2.1.

A code without a rule cannot be in the table (`Served`), and one that is not there is refused.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Awaitable, Callable, Mapping

from cluster.errors import (
    ClusterError,
    InvalidRequest,
    NotFound,
    RequestNotSupported,
    ServerError,
    TopicNotFound,
)
from cluster.nameserver.access import Guard, Rule
from cluster.nameserver.administration import Administration, Served
from cluster.nameserver.kv_config import (
    NOTIFY_ROUTES,
    ORDER_TOPIC_CONFIG,
    RELAYS,
    WIPED_WRITE_PERM,
    KvConfig,
)
from cluster.nameserver.registry import Registry, StaleRegistration
from cluster.protocol import rest_queues
from cluster.protocol.codes import (
    VERSION_OWN,
    RequestCode,
    ResponseCode,
    understands_notify_routes,
)
from cluster.protocol.frames import EMPTY, Frame, refusal, response
from cluster.protocol.headers import (
    KvConfigRequest,
    KvConfigResponse,
    KvNamespaceRequest,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    RouteRequest,
    UnregisterBrokerRequest,
    decode,
    encode,
)
from cluster.protocol.json_body import dump
from cluster.protocol.route import encode_cluster_info, encode_route
from cluster.protocol.topics import decode_registration, encode_topic_list
from dledger.runtime.complaints import Complaints

WARM_UP_SECONDS = 35.0
"""A name server that knows nobody refuses for so long: stock brokers register every 30 s."""

_log = logging.getLogger(__name__)


class NameServerRequests:
    """Frame in, frame out. `clock` gives seconds of a monotonic clock."""

    def __init__(
        self,
        registry: Registry,
        kv_config: KvConfig,
        clock: Callable[[], float],
        *,
        guard: Guard,
        warm_up_seconds: float = WARM_UP_SECONDS,
        settings: Mapping[str, str] = EMPTY,
        relays: bool = True,
        notify_routes: bool = False,
    ) -> None:
        """`relays`: routes of stock clients have relay names (relays.py), unless 318 said more.

        `notify_routes`: their retry topics have notification names (notify_routes.py), likewise.
        """
        self._registry, self._kv_config, self._clock = registry, kv_config, clock
        self._warm_at = clock() + warm_up_seconds
        live = {RELAYS: str(relays).lower(), NOTIFY_ROUTES: str(notify_routes).lower()}
        administration = Administration(registry, kv_config, clock, settings, live)
        self._is_on = administration.is_on
        self._guard = guard
        self._complaints = Complaints(_log, clock)
        self.served: dict[int, Served] = {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: Served(Rule.OPEN, self._route),
            RequestCode.GET_BROKER_CLUSTER_INFO: Served(Rule.OPEN, self._cluster_info),
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: Served(Rule.LOOK, self._topics),
            RequestCode.REGISTER_BROKER: Served(Rule.NODE, self._register),
            RequestCode.UNREGISTER_BROKER: Served(Rule.NODE, self._unregister),
            RequestCode.GET_KV_CONFIG: Served(Rule.OPEN, self._get_kv),
            RequestCode.GET_KVLIST_BY_NAMESPACE: Served(Rule.OPEN, self._kv_namespace),
            RequestCode.PUT_KV_CONFIG: Served(Rule.ADMIN, self._put_kv),
            RequestCode.DELETE_KV_CONFIG: Served(Rule.ADMIN, self._delete_kv),
            **administration.served,
        }

    def handle(self, frame: Frame, address: str) -> Frame | Awaitable[Frame]:
        """The answer, or an awaitable of it. Never raises. `address`: the client's host:port."""
        served = self.served.get(frame.code)
        if served is None:
            return response(
                frame,
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                remark=str(RequestNotSupported(f" request type {frame.code} not supported")),
            )
        try:
            self._guard.check(served.rule, address, frame)
            kept = self._guard.keep_seal(frame)
            answer = served.function(frame) if kept is None else self._after(kept, served, frame)
        except ClusterError as error:
            return refusal(frame, error)
        except Exception as error:  # a mistake of ours must not close every client's connection
            return self._failed(frame, error)
        return answer if isinstance(answer, Frame) else self._guarded(answer, frame)

    async def _after(self, kept: Awaitable[None], served: Served, frame: Frame) -> Frame:
        await kept
        answer = served.function(frame)
        return answer if isinstance(answer, Frame) else await answer

    async def _guarded(self, answer: Awaitable[Frame], frame: Frame) -> Frame:
        try:
            return await answer
        except ClusterError as error:
            return refusal(frame, error)
        except OSError as error:
            return refusal(frame, ServerError(f"the configuration could not be stored: {error}"))
        except Exception as error:  # as in `handle`
            return self._failed(frame, error)

    def _check_view(self) -> None:
        if self._registry.is_empty and self._clock() < self._warm_at:
            raise ServerError(
                "this name server just started and no broker has registered yet; try again shortly"
            )

    def _route(self, frame: Frame) -> Frame:
        request = decode(RouteRequest, frame.ext)
        self._check_view()
        order = self._kv_config.get(ORDER_TOPIC_CONFIG, request.topic)
        route = self._registry.route(
            request.topic,
            self._clock(),
            order,
            stock=frame.version < VERSION_OWN,  # ours want the leaders, and find others themselves
            relays=self._is_on(RELAYS),
            tries_next=frame.language == rest_queues.LANGUAGE,
            notify=understands_notify_routes(frame.language, frame.version)
            and self._is_on(NOTIFY_ROUTES),
            wiped=self._kv_config.namespace(WIPED_WRITE_PERM).keys(),
        )
        if route is None:
            raise TopicNotFound(
                f"No topic route info in name server for the topic: {request.topic}"
            )
        body = encode_route(route, frame.version, standard=request.accept_standard_json_only)
        return response(frame, 0, EMPTY, body)

    def _cluster_info(self, frame: Frame) -> Frame:
        self._check_view()
        brokers = self._registry.brokers(self._clock(), stock=frame.version < VERSION_OWN)
        return response(frame, 0, EMPTY, encode_cluster_info(brokers, frame.version))

    def _topics(self, frame: Frame) -> Frame:
        self._check_view()
        return response(frame, 0, EMPTY, encode_topic_list(self._registry.topics()))

    def _register(self, frame: Frame) -> Frame:
        request = decode(RegisterBrokerRequest, frame.ext)
        if request.compressed:
            raise InvalidRequest("compressed registrations are not read; register uncompressed")
        if request.body_crc32 and request.body_crc32 != zlib.crc32(frame.body):
            raise InvalidRequest("the registration's body is not what its CRC says; send it again")
        if not request.broker_name or not request.broker_addr:
            raise InvalidRequest("a registration lacks its broker name or address; send both")
        registration = decode_registration(frame.body)
        try:
            leader = self._registry.register(request, registration, self._clock())
        except StaleRegistration as error:
            self._complaints.say("stale", "%s", error)
            raise
        answer = RegisterBrokerResponse(leader, leader, self._is_on(NOTIFY_ROUTES) or None)
        return response(frame, 0, encode(answer))

    def _unregister(self, frame: Frame) -> Frame:
        request = decode(UnregisterBrokerRequest, frame.ext)
        self._registry.unregister(request, self._clock())
        return response(frame)

    def _get_kv(self, frame: Frame) -> Frame:
        request = decode(KvConfigRequest, frame.ext)
        value = self._kv_config.get(request.namespace, request.key)
        if value is None:
            raise NotFound(f"No config item, Namespace: {request.namespace} Key: {request.key}")
        return response(frame, 0, encode(KvConfigResponse(value)))

    def _kv_namespace(self, frame: Frame) -> Frame:
        request = decode(KvNamespaceRequest, frame.ext)
        table = self._kv_config.namespace(request.namespace)
        if not table:
            raise NotFound(f"No config item, Namespace: {request.namespace}")
        return response(frame, 0, EMPTY, dump({"table": dict(table)}))

    async def _put_kv(self, frame: Frame) -> Frame:
        request = decode(KvConfigRequest, frame.ext)
        if request.value is None:
            raise InvalidRequest("KvConfigRequest lacks its field value; send it")
        await self._kv_config.put(request.namespace, request.key, request.value)
        return response(frame)

    async def _delete_kv(self, frame: Frame) -> Frame:
        request = decode(KvConfigRequest, frame.ext)
        await self._kv_config.delete(request.namespace, request.key)
        return response(frame)

    def _failed(self, frame: Frame, error: Exception) -> Frame:
        sentence = "request %d failed"
        self._complaints.say(
            f"failed {frame.code}", sentence, frame.code, level=logging.ERROR, error=error
        )
        why = f"the name server failed on request {frame.code}: {error!r}"
        return refusal(frame, ServerError(why))
