"""`client.*`: settings of the connection to the cluster, passed through to `ClientConfig`.

    client.requestTimeout=5   client.request_timeout=5     a field of ClientConfig, either spelling
    client.accessKey, client.secretKey                     the account that signs requests
    client.accountFile                                     … as RocketMQ's tools.yml, on every node
    client.tls=true                                        TLS; believes what the system believes
    client.tls.authority, .certificate, .key, .checkHost   PEM files, on every node; each means TLS

Values are read by the field's type. Secrets are never put into error texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from cluster.client.config import Account, ClientConfig, ClientConfigError, Tls, read_account
from pipeline.options import OptionError, unknown_option

PREFIX = "client."


def _truth(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


_READERS: Mapping[str, Callable[[str], Any]] = {
    "bool": _truth,
    "int": int,
    "float": float,
    "str": str,
}
_PLAIN = {item.name: str(item.type) for item in fields(ClientConfig) if item.type in _READERS}
_TLS = {f"tls.{item.name}": str(item.type) for item in fields(Tls)}
_ACCOUNT = {"access_key": "str", "secret_key": "str", "account_file": "str"}
#: setting → its type
SETTINGS: Mapping[str, str] = {**_PLAIN, **_ACCOUNT, "tls": "bool", **_TLS}


def client_options(given: Mapping[str, str]) -> dict[str, str]:
    """Setting → text, checked by making the settings once. Raises OptionError."""
    names = {_plain(name): name for name in SETTINGS}
    found: dict[str, str] = {}
    for key, text in given.items():
        name = names.get(_plain(key[len(PREFIX) :]))
        if name is None:
            raise unknown_option(key, (PREFIX + known for known in SETTINGS), "the connection")
        found[name] = text
    client_config(found)
    return found


def client_config(options: Mapping[str, str]) -> ClientConfig:
    """The settings for `client_options`. Raises OptionError."""
    values = {name: _value(name, text) for name, text in options.items()}
    try:
        return ClientConfig(
            **{name: values[name] for name in _PLAIN if name in values},
            account=_account(values),
            tls=_tls(values),
        )
    except ClientConfigError as error:
        raise OptionError(f"{PREFIX}*: {error}") from None


def _account(values: Mapping[str, Any]) -> Account | None:
    given = [name for name in _ACCOUNT if name in values]
    if given == ["account_file"]:
        return read_account(Path(values["account_file"]))
    if given == ["access_key", "secret_key"]:
        return Account(values["access_key"], values["secret_key"])
    if given:
        raise OptionError(
            f"{', '.join(PREFIX + name for name in given)}; give both access_key and secret_key, "
            "or account_file alone"
        )
    return None


def _tls(values: Mapping[str, Any]) -> Tls | None:
    given = {name.removeprefix("tls."): values[name] for name in _TLS if name in values}
    if not values.get("tls", bool(given)):
        if given:
            raise OptionError(
                f"{PREFIX}tls is false and other settings of TLS are given; leave them out"
            )
        return None
    return Tls(**given)


def _value(name: str, text: str) -> Any:
    try:
        return _READERS[SETTINGS[name]](text)
    except (KeyError, ValueError):
        raise OptionError(
            f"{PREFIX}{name} cannot be read; give one of type {SETTINGS[name]}"
        ) from None


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()
