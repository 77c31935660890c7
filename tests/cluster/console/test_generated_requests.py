"""Requests that Schemathesis makes from the OpenAPI document, with each role and without one.

DLEDGER_INTEROP_INSTALL=1 pytest -m long tests/cluster/console/test_generated_requests.py -s
DLEDGER_API_CASES=80      so many for each operation, of each of the four callers
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from cluster.client.admin.account_admin import change_accounts
from cluster.console.api.roles import Role
from cluster.console.api.routes import ROUTES
from tests.interop.harness import toolchains

from .conftest import TOKENS, MakeWorld, World

VERSION = "4.32.0"
CASES = os.environ.get("DLEDGER_API_CASES", "5")
#: What the answers must be: no fault of ours, and of the shapes that the document promises. Not
#: `status_code_conformance` of refusals: all routes share theirs.
CHECKS = "not_a_server_error,response_schema_conformance,content_type_conformance"
#: Addresses beyond 8 KiB are no requests: the server closes the connection while they still come.
HOOKS = """
import schemathesis

@schemathesis.hook
def filter_query(context, query):
    return len(str(query)) < 1000
"""
#: What the document itself and the page ask for; open to everybody.
OPEN = re.compile(r"/(api/v1/openapi\.json|docs|healthz|readyz|metrics)?$")


class Case(NamedTuple):
    """One request and its answer."""

    method: str
    path: str
    status: int


def schemathesis() -> str:
    """The program, in an environment of its own. Raises Missing."""

    def build(folder: Path) -> None:
        toolchains.run([sys.executable, "-m", "venv", str(folder / "venv")])
        pip = [str(folder / "venv/bin/python"), "-m", "pip", "install", "-q"]
        toolchains.run([*pip, f"schemathesis=={VERSION}"])

    return str(toolchains.built("schemathesis", [], VERSION, build) / "venv/bin/schemathesis")


CONSOLE = {"accessKey": "console", "secretKey": "of-console", "admin": True}


async def asked(program: str, world: World, token: str | None, folder: Path) -> list[Case]:
    """Run it as a caller with this token. Fails with its words where a check does not hold."""
    await asyncio.to_thread(_with_hooks, folder)
    har = folder / "cases.har"
    command = [
        *(program, "run", f"{world.base}/api/v1/openapi.json", "--no-color", "--seed", "1"),
        *("--checks", CHECKS, "--max-examples", CASES, "--phases", "coverage,fuzzing"),
        *("--report", "har", "--report-har-path", str(har), "--suppress-health-check", "all"),
        *("--no-shrink", "--continue-on-failure", "--warnings", "off"),
        *(("-H", f"Authorization: Bearer {token}") if token else ()),
    ]
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={**os.environ, "SCHEMATHESIS_HOOKS": "hooks"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()[-6000:]
    text = await asyncio.to_thread(har.read_text)
    return [_case(entry) for entry in json.loads(text)["log"]["entries"]]


def _with_hooks(folder: Path) -> None:
    folder.mkdir()
    (folder / "hooks.py").write_text(HOOKS)


def _case(entry: dict[str, Any]) -> Case:
    request = entry["request"]
    return Case(request["method"], urlsplit(request["url"]).path, entry["response"]["status"])


def role_of(case: Case) -> Role | None:
    """The role that the route of a case asks for; None: it is of no route."""
    for route in ROUTES:
        pattern = re.sub(r"\{[^}]+\}", "[^/]+", route.path)
        if route.method == case.method and re.fullmatch(pattern, case.path):
            return route.role
    return None


def beyond(cases: Iterable[Case], role: Role | None) -> list[Case]:
    """Those that were served although this caller's role is not enough for them."""
    return [
        case
        for case in cases
        if case.status < 400
        and not OPEN.fullmatch(case.path)
        and ((needed := role_of(case)) is None or role is None or role < needed)
    ]


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("role", [None, *Role], ids=lambda role: role.label if role else "nobody")
async def test_requests_of_the_document_are_answered_and_none_beyond_its_callers_role(
    make_world: MakeWorld, tmp_path: Path, role: Role | None
) -> None:
    try:
        program = await asyncio.to_thread(schemathesis)
    except toolchains.Missing as missing:
        pytest.skip(str(missing))
    async with make_world(tokens=True) as world:
        token = None if role is None else TOKENS[role.label]
        # As users are told to: the first account that a request makes would shut the console out.
        await change_accounts(world.mq.instance, create=[CONSOLE])
        cases = await asked(program, world, token, tmp_path / "cases")
    statuses = Counter(case.status for case in cases)
    print(f"{role!r}: {len(cases)} requests, {dict(sorted(statuses.items()))}")
    assert {role_of(case) for case in cases} >= set(Role), "each kind of route was asked"
    assert not [case for case in cases if case.status >= 500]
    assert not beyond(cases, role)


def test_a_call_beyond_a_role_is_noticed() -> None:
    route = next(route for route in ROUTES if route.role is max(Role))
    served = Case(route.method, re.sub(r"\{[^}]+\}", "x", route.path), 200)
    assert beyond([served], min(Role)) == beyond([served], None) == [served]
    assert beyond([served], max(Role)) == []
    assert beyond([served._replace(status=403)], min(Role)) == []
