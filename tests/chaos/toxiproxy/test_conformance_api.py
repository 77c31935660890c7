"""Requests that make no sense, and what both servers answer: the status and the error's JSON."""

from __future__ import annotations

import http.client
import json
import urllib.parse
from typing import Any

import pytest

from chaos.toxiproxy.client import Proxy, Toxiproxy
from tests.waiting import limit

from .talk import Echo, dial, has_ended

BAD = "bad request body: "


def ask(toxiproxy: Toxiproxy, method: str, path: str, body: str | None = None) -> tuple[int, Any]:
    """Status and JSON of the answer to a body as it is."""
    parts = urllib.parse.urlsplit(toxiproxy.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=limit(10))
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text else None
    finally:
        connection.close()


def refused(found: tuple[int, Any], status: int, error: str) -> bool:
    """Whether the answer says so; after "bad request body: " each server has its own words."""
    code, body = found
    said = str(body["error"])
    said = BAD if said.startswith(BAD) else said
    return (code, body["status"], said) == (status, status, error)


# -- proxies


@pytest.mark.parametrize("path", ["/proxies", "/populate"])
@pytest.mark.parametrize("body", ["", "{", "[{", "no JSON", '"text"', "7"])
def test_what_is_no_json_of_the_kind_is_a_bad_request(
    toxiproxy: Toxiproxy, path: str, body: str
) -> None:
    assert refused(ask(toxiproxy, "POST", path, body), 400, BAD)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("[]", BAD),
        ("null", "missing required field: name"),
        ('{"upstream": "a:1"}', "missing required field: name"),
        ('{"name": "n"}', "missing required field: upstream"),
        ('{"name": 1, "upstream": "a:1"}', BAD),
        ('{"name": "n", "upstream": 1}', BAD),
        ('{"name": "n", "upstream": "a:1", "listen": 1}', BAD),
        ('{"name": "n", "upstream": "a:1", "enabled": 1}', BAD),
    ],
)
def test_a_proxy_with_wrong_fields_is_refused(toxiproxy: Toxiproxy, body: str, error: str) -> None:
    assert refused(ask(toxiproxy, "POST", "/proxies", body), 400, error)
    assert toxiproxy.proxies() == {}


@pytest.mark.parametrize("listen", ["nonsense", "127.0.0.1:99999", "127.0.0.1:port", "a..b:1"])
def test_an_address_that_is_none_is_an_error_of_the_server(
    toxiproxy: Toxiproxy, echo: Echo, listen: str
) -> None:
    body = json.dumps({"name": "n", "upstream": echo.address, "listen": listen})
    status, said = ask(toxiproxy, "POST", "/proxies", body)
    assert (status, said["status"]) == (500, 500)
    assert toxiproxy.proxies() == {}


@pytest.mark.parametrize("upstream", ["no address", "a..b:1", "127.0.0.1:port"])
def test_a_target_that_is_none_ends_what_is_dialled(toxiproxy: Toxiproxy, upstream: str) -> None:
    with dial(toxiproxy.create("nowhere", upstream)) as connection:
        assert has_ended(connection)


def test_what_follows_the_json_is_not_read(toxiproxy: Toxiproxy) -> None:
    body = '{"name": "n", "upstream": "a:1", "listen": "127.0.0.1:0"} and more'
    assert ask(toxiproxy, "POST", "/proxies", body)[0] == 201


@pytest.mark.parametrize("body", ["", "{", "[]", '{"enabled": "x"}', '{"upstream": 2}'])
def test_a_wrong_update_of_a_proxy_changes_nothing(
    toxiproxy: Toxiproxy, proxy: Proxy, body: str
) -> None:
    assert refused(ask(toxiproxy, "PATCH", "/proxies/echo", body), 400, BAD)
    assert toxiproxy.get("echo") == proxy


def test_an_update_to_nonsense_is_an_error_and_the_proxy_lives(
    toxiproxy: Toxiproxy, proxy: Proxy
) -> None:
    body = '{"listen": "nonsense"}'
    assert ask(toxiproxy, "PATCH", "/proxies/echo", body)[0] == 500
    assert toxiproxy.get("echo") == proxy


# -- populate


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("{}", BAD),
        ("[1]", BAD),
        ('[{"name": 1, "upstream": "a:1"}]', BAD),
        ('[{"upstream": "a:1"}]', "missing required field: name at proxy 1"),
        ('[{"name": "n"}]', "missing required field: upstream at proxy 1"),
        (
            '[{"name": "m", "upstream": "a:1", "listen": "127.0.0.1:0"}, {"name": "n"}]',
            "missing required field: upstream at proxy 2",
        ),
    ],
)
def test_populate_makes_all_or_none_of_what_is_wrong(
    toxiproxy: Toxiproxy, body: str, error: str
) -> None:
    found = ask(toxiproxy, "POST", "/populate", body)
    assert refused(found, 400, error)
    assert found[1]["proxies"] is None
    assert toxiproxy.proxies() == {}


def test_populate_of_nothing_makes_nothing(toxiproxy: Toxiproxy) -> None:
    for body in ("[]", "null"):
        assert ask(toxiproxy, "POST", "/populate", body) == (201, {"proxies": None})
    assert toxiproxy.populate([]) == []


def test_populate_says_what_it_made_before_it_failed(toxiproxy: Toxiproxy, echo: Echo) -> None:
    wanted = [
        {"name": "good", "upstream": echo.address, "listen": "127.0.0.1:0"},
        {"name": "taken", "upstream": echo.address, "listen": echo.address},
    ]
    status, said = ask(toxiproxy, "POST", "/populate", json.dumps(wanted))
    assert (status, said["status"]) == (500, 500)
    assert [one["name"] for one in said["proxies"]] == ["good"]
    assert set(toxiproxy.proxies()) == {"good"}


def test_populate_keeps_what_is_the_same_and_replaces_what_is_not(
    toxiproxy: Toxiproxy, proxy: Proxy, echo: Echo
) -> None:
    toxiproxy.add_toxic("echo", "latency")
    same = {"name": "echo", "upstream": echo.address, "listen": proxy.listen}
    assert toxiproxy.populate([same]) == [proxy]
    assert toxiproxy.toxics("echo") != []
    (other,) = toxiproxy.populate([{**same, "listen": "127.0.0.1:0"}])
    assert other.listen != proxy.listen
    assert toxiproxy.toxics("echo") == []
    with pytest.raises(ConnectionRefusedError), dial(proxy):
        pass


def test_populate_makes_proxies_that_are_down(toxiproxy: Toxiproxy, echo: Echo) -> None:
    wanted = {"name": "n", "upstream": echo.address, "listen": "127.0.0.1:0", "enabled": False}
    assert ask(toxiproxy, "POST", "/populate", json.dumps([wanted]))[0] == 201
    assert not toxiproxy.get("n").enabled


# -- toxics


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ("", BAD),
        ("[]", BAD),
        ("null", "invalid toxic type"),
        ("{}", "invalid toxic type"),
        ('{"type": 1}', BAD),
        ('{"type": "latency", "name": 3}', BAD),
        ('{"type": "latency", "stream": 3}', BAD),
        (
            '{"type": "latency", "stream": ""}',
            "stream was invalid, can be either upstream or downstream",
        ),
        ('{"type": "latency", "toxicity": "1"}', BAD),
        ('{"type": "latency", "attributes": []}', BAD),
        ('{"type": "latency", "attributes": {"latency": "1"}}', BAD),
        ('{"type": "latency", "attributes": {"latency": true}}', BAD),
        ('{"type": "latency", "attributes": {"latency": 1.5}}', BAD),
    ],
)
def test_a_toxic_with_wrong_fields_is_refused(
    toxiproxy: Toxiproxy, proxy: Proxy, fields: str, error: str
) -> None:
    assert refused(ask(toxiproxy, "POST", "/proxies/echo/toxics", fields), 400, error)
    assert toxiproxy.toxics("echo") == []


@pytest.mark.parametrize(
    ("attributes", "wanted"),
    [("null", 0), ('{"latency": null}', 0), ('{"latency": -1}', -1), ('{"other": 3}', 0)],
)
def test_attributes_that_are_odd_and_no_error(
    toxiproxy: Toxiproxy, proxy: Proxy, attributes: str, wanted: int
) -> None:
    body = f'{{"type": "latency", "attributes": {attributes}}}'
    status, made = ask(toxiproxy, "POST", "/proxies/echo/toxics", body)
    assert status == 200
    assert made["attributes"] == {"latency": wanted, "jitter": 0}


@pytest.mark.parametrize(
    "body",
    ["{", "[]", '{"toxicity": "x"}', '{"attributes": 3}', '{"attributes": {"latency": "x"}}'],
)
def test_a_wrong_update_of_a_toxic_changes_nothing(
    toxiproxy: Toxiproxy, proxy: Proxy, body: str
) -> None:
    made = toxiproxy.add_toxic("echo", "latency", name="late", latency=3)
    assert refused(ask(toxiproxy, "PATCH", "/proxies/echo/toxics/late", body), 400, BAD)
    assert toxiproxy.toxics("echo") == [made]


def test_only_toxicity_and_attributes_of_a_toxic_change(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    made = toxiproxy.add_toxic("echo", "latency", name="late", latency=3)
    body = '{"name": "new", "type": "slicer", "stream": "upstream", "toxicity": 0.5}'
    found = ask(toxiproxy, "PATCH", "/proxies/echo/toxics/late", body)
    assert found == (200, {**made, "toxicity": 0.5})


def test_toxics_are_listed_by_stream(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    for stream, name in (("downstream", "a"), ("upstream", "b"), ("downstream", "c")):
        toxiproxy.add_toxic("echo", "latency", stream, name=name)
    assert [one["name"] for one in toxiproxy.toxics("echo")] == ["b", "a", "c"]


@pytest.mark.parametrize(
    ("method", "path", "error"),
    [
        ("GET", "/proxies/nobody", "proxy not found"),
        ("PATCH", "/proxies/nobody", "proxy not found"),
        ("GET", "/proxies/nobody/toxics", "proxy not found"),
        ("POST", "/proxies/nobody/toxics", "proxy not found"),
        ("GET", "/proxies/echo/toxics/none", "toxic not found"),
        ("PATCH", "/proxies/echo/toxics/none", "toxic not found"),
        ("DELETE", "/proxies/echo/toxics/none", "toxic not found"),
    ],
)
def test_what_is_not_there_is_not_found(
    toxiproxy: Toxiproxy, proxy: Proxy, method: str, path: str, error: str
) -> None:
    assert refused(ask(toxiproxy, method, path, "{}"), 404, error)


def test_a_name_that_is_taken_is_a_conflict(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    body = '{"name": "echo", "upstream": "a:1"}'
    assert refused(ask(toxiproxy, "POST", "/proxies", body), 409, "proxy already exists")
    toxiproxy.add_toxic("echo", "latency", name="late")
    body = '{"name": "late", "type": "slicer"}'
    found = ask(toxiproxy, "POST", "/proxies/echo/toxics", body)
    assert refused(found, 409, "toxic already exists")
