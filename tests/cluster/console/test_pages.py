"""The console's pages in a real browser: no error, no sideways scrolling, accessible, small.

DLEDGER_PICTURES=FOLDER keeps a picture of each page there.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from cluster.client import ConsumerConfig
from cluster.client.routing.leader_requests import ask_leader
from cluster.client.routing.routes import DEFAULT_TOPIC
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import EMPTY
from tests.browser import Tab, opened
from tests.interop.harness import toolchains
from tests.waiting import limit

from .conftest import MakeWorld, World
from .shapes import check
from .test_chaos_runs import PASSED, make_run

pytestmark = pytest.mark.timeout(1200)  # the first may have to install the browser

NARROW, WIDE = 390, 1280
PAGE_BYTES_MAX = 300 * 1024
#: Address behind "#/" → text that the page has when it is whole.
PAGES = {
    "": "broker-a",
    "topics": "orders",
    "topics/orders": "Queues",
    "messages": "Messages",
    "messages/orders": "first body",
    "groups": "billing",
    "groups/billing": "Delete the group",
    "clients": "Producers",
    "dead": "billing",
    "dead/billing": "second body",
    "scheduled": "1 wait",
    "transactions": "outcome",
    "settings": "Settings of",
    "accounts": "No account is asked for",
    "members": "Leaders of broker-a",
    "audit": "topic orders",
    "chaos": "of 3",
    "trace": "Follow",
}
#: A line for each rule of WCAG 2.1, A and AA, that the page breaks.
VIOLATIONS = """
axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}).then(
  (found) => found.violations.map((one) =>
    `${one.id}: ${one.nodes.map((node) => node.target.join(" ")).slice(0, 3).join(", ")}`))
"""


@pytest.fixture(scope="module")
def parts() -> tuple[str, str]:
    """A browser, and the script that judges pages; CI installs both."""
    try:
        return toolchains.browser(), toolchains.axe().read_text("utf-8")
    except toolchains.Missing as missing:
        pytest.skip(f"not here: {missing}" if toolchains.may_install() else str(missing))


@pytest.fixture
async def tab(parts: tuple[str, str], tmp_path: Path) -> AsyncIterator[Tab]:
    async with opened(parts[0], tmp_path / "browser") as made:
        yield made


async def fill(world: World) -> None:
    """A topic with messages, a group that has read and has a dead letter, and what waits."""
    await world.mq.admin().create_topic("orders", 2)
    async with world.mq.producer() as producer:
        await producer.send("orders", b"first body", key="o-1", tags="new")
        await producer.send("orders", b'{"second body": [1, 2, 3]}', key="o-2")
        await producer.send_delayed("orders", b"later", delay=3600)
        config = ConsumerConfig(manual_ack=True)
        async with world.mq.consumer("orders", group="billing", config=config) as consumer:
            for _ in range(2):
                message = await consumer.receive(limit(30))
                assert message is not None
                if message.body == b"first body":
                    consumer.ack(message)
                else:
                    await consumer.nack(message, delay_level=-1)
            await consumer.commit()


async def look(
    tab: Tab, base: str, page: str, wanted: str, width: int, dark: bool, axe: str
) -> dict[str, Any]:
    """What is wrong with one page: empty when nothing is."""
    await tab.show(f"{base}/#/{page}", width=width, dark=dark)
    await tab.until(f"document.getElementById('main')?.textContent.includes({wanted!r})")
    wrong: dict[str, Any] = {}
    if tab.errors:
        wrong["errors"] = list(tab.errors)
    if await tab.evaluate("document.documentElement.scrollWidth > innerWidth"):
        wrong["sideways"] = await tab.evaluate("document.documentElement.scrollWidth")
    if tab.received > PAGE_BYTES_MAX:
        wrong["bytes"] = tab.received
    await tab.evaluate(axe + "; true")
    if found := await tab.evaluate(VIOLATIONS):
        wrong["axe"] = found
    await keep_picture(tab, page.replace("/", "-") or "overview", width, dark)
    return wrong


async def keep_picture(tab: Tab, name: str, width: int, dark: bool) -> None:
    """Where $DLEDGER_PICTURES names a folder, for people."""
    if folder := os.environ.get("DLEDGER_PICTURES"):
        file = Path(folder, f"{name}-{width}-{'dark' if dark else 'light'}.png")
        await asyncio.to_thread(file.write_bytes, await tab.picture())


async def test_every_page_is_free_of_errors_and_accessible(
    make_world: MakeWorld, tab: Tab, parts: tuple[str, str], tmp_path: Path
) -> None:
    wrong = {}
    make_run(tmp_path / "runs", "20261127-040000-smoke-7", 1_795_752_000, PASSED, "report")
    make_run(tmp_path / "runs", "20261127-030000-smoke-8", 1_795_748_400, {"verdict": "invalid"})
    async with make_world(chaos_runs=tmp_path / "runs") as world:
        await fill(world)
        for number, (page, wanted) in enumerate(PAGES.items()):
            dark, width = bool(number % 2), NARROW if number % 4 < 2 else WIDE
            found = await look(tab, world.base, page, wanted, width, dark, parts[1])
            if found:
                wrong[f"{page} {width} {'dark' if dark else 'light'}"] = found
    assert wrong == {}


async def test_the_report_of_a_chaos_run_becomes_a_file(
    make_world: MakeWorld, tab: Tab, parts: tuple[str, str], tmp_path: Path
) -> None:
    """On a phone, too; the console's own page runs nothing of it."""
    runs, named = tmp_path / "runs", "20261127-040000-smoke-7"
    async with make_world(chaos_runs=runs) as world:
        runs.mkdir()
        assert await look(tab, world.base, "chaos", "No run is", NARROW, True, parts[1]) == {}
        make_run(runs, named, 1_795_752_000, PASSED, "<script>document.title='run'</script>")
        assert await look(tab, world.base, "chaos", "2 of 3", NARROW, False, parts[1]) == {}
        await tab.evaluate("document.querySelector('td button').click()")
        await tab.until(f"document.body.textContent.includes('in the file {named}.html')")
        assert await tab.evaluate("document.title") == "Chaos runs · dledger"
        assert tab.errors == []


async def test_what_is_wrong_with_a_page_is_told(tab: Tab, parts: tuple[str, str]) -> None:
    """The checks above can fail: a page with each fault."""
    page = (
        "data:text/html,<html><body><main id=main>wide<p style='width:2000px;color:%23ddd'>pale"
        "<input></main><script>console.error('said');throw Error('thrown')</script>"
    )
    await tab.show(page, width=NARROW)
    await tab.until("document.querySelector('input')")
    await tab.evaluate(parts[1] + "; true")
    told = " ".join(await tab.evaluate(VIOLATIONS))
    for rule in ("color-contrast", "document-title", "html-has-lang", "label"):
        assert f"{rule}:" in told
    assert await tab.evaluate("document.documentElement.scrollWidth > innerWidth")
    assert "said" in str(tab.errors)
    assert "thrown" in str(tab.errors)


@pytest.mark.long
async def test_pages_of_ten_thousand_topics_and_a_thousand_groups_stay_small(
    make_world: MakeWorld, tab: Tab, parts: tuple[str, str]
) -> None:
    wrong = {}
    async with make_world() as world:
        await fill(world)
        for code, body in many():
            await ask_leader(
                world.mq.instance, "broker-a", DEFAULT_TOPIC, code, EMPTY, body=orjson.dumps(body)
            )
        for page in ("", "topics", "groups", "messages", "clients", "dead"):
            wanted = {"topics": "topic-00000", "groups": "group-000"}.get(page, PAGES[page])
            found = await look(tab, world.base, page, wanted, WIDE, False, parts[1])
            paints = await tab.evaluate(
                "performance.getEntriesByName('first-contentful-paint').map((one) => one.startTime)"
            )
            print(f"{page or 'overview'}: first paint {paints} ms, {tab.received} bytes")
            if found:
                wrong[page] = found
    assert wrong == {}


def many() -> Iterator[tuple[int, dict[str, Any]]]:
    """Requests that make them, some hundreds in each: code and JSON."""
    for first in range(0, 10_000, 500):
        topics = [
            {"topicName": f"topic-{n:05}", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}
            for n in range(first, first + 500)
        ]
        yield RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, {"topicConfigList": topics}
    for first in range(0, 1_000, 200):
        groups = [{"groupName": f"group-{n:03}"} for n in range(first, first + 200)]
        yield RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, {"groupConfigList": groups}


ACCOUNT = {
    "broker": "broker-a",
    "account": "writer",
    "admin": False,
    "status": "enable",
    "topics": ["orders=PUB|SUB"],
    "groups": ["billing=SUB"],
    "default_topic": "DENY",
    "default_group": "SUB",
    "sealed": "optional",
    "take_over": [],
    "policies": [],
    "secrets": 1,
    "max_messages": None,
    "max_bytes": None,
    "max_connections": None,
    "from": None,
}
#: The page is asked for as it is; answers about accounts come from the test.
ANSWERS = """
const asked = window.asked = [], real = window.fetch;
window.fetch = (address, rest) => {
  if (!address.includes("/accounts")) return real(address, rest);
  asked.push([rest.method ?? "GET", address, rest.body ?? ""]);
  const changed = {account: "writer", secret: "told-once", command: ""};
  const found = rest.method === "PATCH" ? changed : PAGE;
  return Promise.resolve(new Response(JSON.stringify(found)));
};
location.hash = "#/accounts"; true
"""


async def test_accounts_are_confirmed_and_a_secret_is_shown_once(
    make_world: MakeWorld, tab: Tab, parts: tuple[str, str]
) -> None:
    page = {
        "accounts": [ACCOUNT],
        "total": 1,
        "asked_for": True,
        "own": None,
        "cursor": None,
        "command": "dledger account list",
    }
    check(page, "AccountPage")
    async with make_world() as world:
        for dark, width in ((False, NARROW), (True, WIDE)):
            await tab.show(f"{world.base}/?{width}#/", width=width, dark=dark)
            await tab.until("document.getElementById('main')?.textContent.includes('Replicas')")
            await tab.evaluate("{" + ANSWERS.replace("PAGE", json.dumps(page)) + "}")
            await tab.until("document.getElementById('main').textContent.includes('writer')")
            await tab.evaluate("document.querySelector('main details').open = true")
            await tab.evaluate(parts[1] + "; true")
            assert await tab.evaluate(VIOLATIONS) == []
            await keep_picture(tab, "accounts-rows", width, dark)
            for label, words in (
                ("Alter", "account alter writer --no-admin --topic 'orders=PUB|SUB'"),
                ("Disable", "account alter writer --disable"),
                ("Delete", "account delete writer"),
                ("New secret", "account alter writer --new-secret"),
            ):
                await tab.evaluate(
                    f"document.querySelector('[aria-label=\"{label} writer\"]').click()"
                )
                if label == "Alter":
                    assert await tab.evaluate(VIOLATIONS) == []
                    await keep_picture(tab, "accounts-alter", width, dark)
                    await tab.evaluate("document.querySelector('#dialog button.main').click()")
                await tab.until(
                    f"document.querySelector('#dialog pre')?.textContent.includes({words!r})"
                )
                assert await tab.evaluate(VIOLATIONS) == [], label
                if label != "New secret":
                    await tab.evaluate("document.getElementById('dialog').close()")
            assert all(method == "GET" for method, *_ in await tab.evaluate("window.asked"))
            await tab.evaluate("document.querySelector('#dialog button').click()")
            await tab.until("document.getElementById('main').textContent.includes('told-once')")
            assert ["PATCH", "/api/v1/accounts/writer", '{"new_secret":true}'] in (
                await tab.evaluate("window.asked")
            )
            assert await tab.evaluate(VIOLATIONS) == []
            await keep_picture(tab, "accounts-secret", width, dark)
            await tab.evaluate("location.hash = '#/topics'; true")
            await tab.until("document.title.startsWith('Topics')")
            await tab.evaluate("location.hash = '#/accounts'; true")
            await tab.until("document.getElementById('main').textContent.includes('writer')")
            assert "told-once" not in await tab.evaluate("document.documentElement.outerHTML")
            assert not await tab.evaluate("document.documentElement.scrollWidth > innerWidth")
        assert tab.errors == []


async def test_keys_go_to_pages_and_are_told(make_world: MakeWorld, tab: Tab) -> None:
    async with make_world() as world:
        await tab.show(f"{world.base}/#/")
        await tab.until("document.getElementById('main')?.textContent.includes('broker-a')")
        await press(tab, "?")
        shown = "document.getElementById('dialog')"
        await tab.until(f"{shown}.open && {shown}.textContent.includes('2Topics')")
        await press(tab, "Escape")
        await tab.until(f"!{shown}.open")
        await press(tab, "2")
        await tab.until("location.hash == '#/topics' && document.querySelector('main input')")
        await press(tab, "/")
        await tab.until("document.activeElement == document.querySelector('main input')")
        await press(tab, "4")
        await tab.until("document.activeElement.value == '4'")
        assert await tab.evaluate("location.hash") == "#/topics", "it is typed into the field"
        assert tab.errors == []


async def press(tab: Tab, key: str) -> None:
    text = {"text": key} if len(key) == 1 else {"windowsVirtualKeyCode": 27}
    await tab.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
    await tab.call("Input.dispatchKeyEvent", type="keyUp", key=key)
