"""Pages that stand beside the code become pages of the site; links lead to where they are there.

    docs/tls.md            tls.md
    README.md              repo/README.md          so do all pages in git outside docs/
    conf/broker.toml       repo/conf/broker.toml   a file that a page links to: it can be downloaded

A link that leads to neither is an error of the strict build.
"""

from __future__ import annotations

import os
import posixpath
import re
import subprocess
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
DOCS, BESIDE = "docs/", "repo/"
#: Each is a line or two of the next release: they are listed by its section of the changelog.
_NO_PAGES = re.compile(r"changelog\.d/(?!README)|.*/data/")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FENCED = re.compile(r"^( *)(```+)[^\n]*\n.*?^\1\2 *$", re.MULTILINE | re.DOTALL)


def in_repository(site_path: str) -> str:
    """Where a page of the site stands in the repository."""
    beside = site_path.startswith(BESIDE)
    return site_path.removeprefix(BESIDE) if beside else DOCS + site_path


def in_site(path: str) -> str:
    """Where a page or file of the repository stands in the site."""
    return path.removeprefix(DOCS) if path.startswith(DOCS) else BESIDE + path


def pages_beside_code() -> list[str]:
    """Markdown files in git, or about to be, outside docs/."""
    command = ("git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md")
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted(
        name
        for name in listed.stdout.splitlines()
        if not name.startswith(DOCS) and not _NO_PAGES.match(name) and (ROOT / name).exists()
    )


def linked_files(page: str) -> set[str]:
    """Files of the repository, no pages, that a page links to."""
    text = _FENCED.sub("", (ROOT / page).read_text("utf-8"))
    targets = (_target(page, link) for link in _LINK.findall(text))
    return {path for path, _ in targets if path and not path.endswith(".md")}


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add what stands outside docs/."""
    beside = pages_beside_code()
    pages = [*beside, *(in_repository(file.src_uri) for file in files.documentation_pages())]
    downloads = {path for page in pages for path in linked_files(page) if (ROOT / path).is_file()}
    for path in [*beside, *sorted(downloads)]:
        if in_site(path) in files.src_uris:  # what lies in docs/ is there already
            continue
        files.append(File.generated(config, in_site(path), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links of a page lead to pages of the site."""
    return rewritten(markdown, page.file.src_uri)


def rewritten(markdown: str, page: str) -> str:
    """The text of a page of the site; links outside of code lead to where things are there."""
    here = in_repository(page)

    def one(found: re.Match[str]) -> str:
        path, heading = _target(here, found[1])
        if not path:
            return found[0]
        if (ROOT / path).is_dir():
            path = posixpath.join(path, "README.md")
        return f"]({posixpath.relpath(in_site(path), posixpath.dirname(page) or '.')}{heading})"

    parts, end = [], 0
    for fence in _FENCED.finditer(markdown):
        parts += [_LINK.sub(one, markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, _LINK.sub(one, markdown[end:])])


def _target(page: str, link: str) -> tuple[str, str]:
    """(path in the repository, "#heading" or "") of a link; ("", "") for one that leaves it."""
    path, hash_, heading = link.partition("#")
    if not path or re.match(r"\w+:", path):
        return "", ""
    return os.path.normpath(posixpath.join(posixpath.dirname(page), path)), hash_ + heading
