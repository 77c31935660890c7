"""The documents site: the hook that adds pages beside the code, and its navigation.

The strict build itself, which looks at every link, is a gate of `scripts/check`.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

import pytest
from mkdocs.config import load_config
from mkdocs.structure.files import get_files

from scripts import site_hook

from .pages import ROOT, pages, read


@pytest.fixture(scope="module")
def site() -> tuple[dict[str, str], list[str]]:
    """(path in the site → text of its page, what the navigation lists)."""
    config = load_config(str(ROOT / "mkdocs.yml"))
    files = config.plugins.on_files(get_files(config), config=config)
    texts = {file.src_uri: file.content_string for file in files.documentation_pages()}
    listed = re.findall(r": ([\w/.-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    return texts, listed


def test_every_page_of_the_repository_is_one_of_the_site(
    site: tuple[dict[str, str], list[str]],
) -> None:
    texts, listed = site
    wanted = {site_hook.in_site(page): page for page in pages()}
    left_out = {page for path, page in wanted.items() if path not in texts}
    assert all(page.startswith("changelog.d/") or "/data/" in page for page in left_out)
    assert texts["repo/README.md"] == read("README.md")
    assert texts["tls.md"] == read("docs/tls.md")
    assert {posixpath.normpath(path) for path in listed} <= set(texts)


def test_a_path_leads_to_the_site_and_back() -> None:
    for page in pages():
        assert site_hook.in_repository(site_hook.in_site(page)) == page


@pytest.mark.parametrize(
    ("page", "text", "shown"),
    [
        ("tls.md", "[a](../README.md#use-it)", "[a](repo/README.md#use-it)"),
        ("reference/errors.md", "[a](../tls.md)", "[a](../tls.md)"),
        ("repo/cluster/README.md", "[a](../docs/tls.md)", "[a](../../tls.md)"),
        ("repo/README.md", "[a](cluster/core/access/)", "[a](cluster/core/access/README.md)"),
        ("repo/README.md", "[a](https://a.example/b#c) [b](#use-it)", None),
        ("tls.md", "```text\n[a](../README.md)\n```", None),
    ],
)
def test_links_lead_to_pages_of_the_site(page: str, text: str, shown: str | None) -> None:
    assert site_hook.rewritten(text, page) == (text if shown is None else shown)


def test_files_that_pages_link_to_can_be_downloaded() -> None:
    assert "conf/broker-of-three.toml" in site_hook.linked_files("cluster/README.md")


def test_nothing_is_asked_of_another_host() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    assert "font: false" in text
    assert not re.search(r"https?://", text)


def test_the_kinds_of_pages_are_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    kinds = re.findall(r"^  - ([\w ]+):", text, re.MULTILINE)
    assert {"Tutorial", "How to", "Reference", "Explanation", "Runbooks"} <= set(kinds)
    made = {"docs/" + Path(name).as_posix() for name in re.findall(r"reference/\w+\.md", text)}
    assert made == {name for name in pages() if posixpath.dirname(name) == "docs/reference"}
