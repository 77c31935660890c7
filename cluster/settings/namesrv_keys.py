"""RocketMQ's namesrv.conf: its keys as options of our name server.

    listenPort, bindAddress                     --listen
    needWaitForService, waitSecondsForService   --warm-up
    kvConfigPath                                --kv-folder: the folder of that file

As in broker.conf a key without a meaning here is refused with the reason, all such lines at once.
Source: NamesrvConfig and NettyServerConfig of RocketMQ 5.3; defaults are theirs.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cluster.settings.rocketmq_keys import each_line
from cluster.settings.settings import SettingsError
from commitlog.address import PORT_MAX, join_address

KEYS: Final = (
    *("bindAddress", "kvConfigPath", "listenPort", "needWaitForService", "waitSecondsForService"),
)
_FIXED = "a registration counts as long as its broker renews it"
_ONE_LOOP = "one event loop serves all requests"
REFUSED: Final[Mapping[str, str]] = {
    "clientRequestThreadPoolNums": _ONE_LOOP,
    "clusterTest": "there is no such mode",
    "configBlackList": "no request changes settings",
    "configStorePath": "no request changes settings",
    "controllerAddr": "who leads is elected by the replicas themselves",
    "defaultThreadPoolNums": _ONE_LOOP,
    "enableControllerInNamesrv": "who leads is elected by the replicas themselves",
    "orderMessageEnable": "order configuration is always served",
    "productEnvName": "no request asks for it",
    "rocketmqHome": "no file is read from there",
    "scanNotActiveBrokerInterval": _FIXED,
    "serverWorkerThreads": _ONE_LOOP,
    "supportActingMaster": "who leads is elected by the replicas themselves",
    "unRegisterBrokerQueueCapacity": _FIXED,
}
"""Keys of RocketMQ without a meaning here → why."""


@dataclass(frozen=True, slots=True)
class NamesrvConf:
    """Options that such a file gives; None or 0 where it gives none."""

    listen: str | None = None
    warm_up: float = 0.0
    kv_folder: Path | None = None


def read_namesrv_conf(path: Path) -> NamesrvConf:
    """Read the file. Raises SettingsError that names all wrong lines; OSError."""
    found: dict[str, str] = {}
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} is not UTF-8 text; name another file") from error

    def take(key: str, value: str, origin: str) -> None:
        _check(key, value, origin)
        found[key] = value

    each_line(text, str(path), take)
    port = found.get("listenPort", "9876")
    host = found.get("bindAddress", "0.0.0.0")
    waits = found.get("needWaitForService", "false") == "true"
    kept = found.get("kvConfigPath")
    return NamesrvConf(
        join_address(host, port),
        float(found.get("waitSecondsForService", "45")) if waits else 0.0,
        Path(kept).parent if kept else None,
    )


def _check(key: str, value: str, origin: str) -> None:
    if key in REFUSED:
        raise SettingsError(f"{key} ({origin}) has no meaning here: {REFUSED[key]}; take it out")
    if key not in KEYS:
        near = difflib.get_close_matches(key, KEYS, 1) or [", ".join(KEYS)]
        raise SettingsError(f"{key} ({origin}) is not known; take it out, or give {near[0]}")
    if key == "needWaitForService" and value not in ("true", "false"):
        raise SettingsError(f"{key}={value} ({origin}) is neither true nor false; give one of them")
    if key in ("listenPort", "waitSecondsForService"):
        number = int(value) if value.isascii() and value.isdigit() else -1
        if not 0 <= number <= PORT_MAX:
            raise SettingsError(f"{key}={value} ({origin}) is impossible; give 0 to {PORT_MAX}")
    if not value:
        raise SettingsError(f"{key} ({origin}) has no value; give one, or take it out")
