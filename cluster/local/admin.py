"""Ask a node's admin HTTP; standard library only, so that commands start quickly."""

from __future__ import annotations

import http.client
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from cluster.local.profile import BROKER, Member, Profile
from commitlog.address import split_address

# A healthy node answers in milliseconds; a stopped one must not make `status` look hung.
TIMEOUT_SECONDS = 1.0
BODY_BYTES_MAX = 4 << 20


def get(
    address: str, path: str, timeout: float = TIMEOUT_SECONDS, *, token: str | None = None
) -> tuple[int, bytes]:
    """Status code and body of an HTTP answer. Raises OSError if no server answers."""
    connection = http.client.HTTPConnection(*split_address(address), timeout=timeout)
    shown = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        connection.request("GET", path, headers=shown)
        response = connection.getresponse()
        return response.status, response.read(BODY_BYTES_MAX)
    except http.client.HTTPException as error:
        raise ConnectionError(f"{address} does not speak HTTP: {error!r}") from error
    finally:
        connection.close()


def not_ready(member: Member, token: str | None) -> str:
    """Why it does not serve clients now, in its own words or ours; "" when it does.

    A broker says so itself (readiness.py). A name server serves when it accepts connections.
    """
    try:
        if member.kind == BROKER:
            code, body = get(member.admin, "/readyz", token=token)
            return "" if code == 200 else body.decode("utf-8", "replace").strip()
        socket.create_connection(split_address(member.client), timeout=TIMEOUT_SECONDS).close()
        return ""
    except OSError as error:
        return f"it does not answer ({error})"


def is_ready(member: Member, token: str | None) -> bool:
    """Whether it serves clients now."""
    return not not_ready(member, token)


def status(
    member: Member, token: str | None, timeout: float = TIMEOUT_SECONDS
) -> dict[str, Any] | None:
    """The node's /api/v1/status, or None when it does not answer."""
    try:
        code, body = get(member.admin, "/api/v1/status", timeout, token=token)
        return dict(json.loads(body)) if code == 200 else None
    except (OSError, ValueError):
        return None


def statuses(
    profile: Profile, timeout: float = TIMEOUT_SECONDS
) -> dict[str, dict[str, Any] | None]:
    """Every broker's status, asked for at the same time."""
    token = profile.admin_token
    brokers = profile.of_kind(BROKER)
    with ThreadPoolExecutor(max_workers=max(1, len(brokers))) as pool:
        found = pool.map(lambda member: status(member, token, timeout), brokers)
        return {member.name: value for member, value in zip(brokers, found, strict=True)}
