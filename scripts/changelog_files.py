"""`scripts/changelog`: small files of changelog.d, one for each change, become a section of a page.

scripts/changelog                            prints the section that the next release would have
scripts/changelog release VERSION [DATE]     puts it into CHANGELOG.md and removes the files
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("added", "changed", "fixed", "removed", "security")
_NAME = re.compile(rf"[a-z0-9-]+\.({'|'.join(KINDS)})\.md")
_VERSION = re.compile(r"\d+\.\d+\.\d+")


class ChangelogError(Exception):
    """A file or a version that cannot be used; the text says which and what to do."""


def changes(folder: Path) -> list[tuple[str, str, Path]]:
    """(kind, text, file) of every change in `folder`, by kind and name. Raises ChangelogError."""
    found = []
    for path in sorted(folder.iterdir()):
        if path.name == "README.md":
            continue
        match = _NAME.fullmatch(path.name)
        if match is None:
            kinds = ", ".join(KINDS)
            raise ChangelogError(f"{path.name} has no kind; name it SUBJECT.KIND.md, of {kinds}")
        text = path.read_text(encoding="utf-8").strip()
        if not text:
            raise ChangelogError(f"{path.name} is empty; say what users notice, or remove it")
        found.append((match[1], text, path))
    return sorted(found, key=lambda change: KINDS.index(change[0]))


def section(title: str, found: list[tuple[str, str, Path]]) -> str:
    """Markdown of one release: a heading for each kind that has changes, an item for each."""
    lines = [f"## {title}"]
    for kind in KINDS:
        texts = [text for of_kind, text, _ in found if of_kind == kind]
        if texts:
            lines += ["", f"### {kind.capitalize()}", ""]
            lines += ["* " + "\n  ".join(text.splitlines()) for text in texts]
    return "\n".join(lines) + "\n"


def release(root: Path, version: str, date: str) -> None:
    """Put all changes into CHANGELOG.md, above earlier releases. Raises ChangelogError."""
    if not _VERSION.fullmatch(version):
        raise ChangelogError(f"{version} is no version; give three numbers, as in 0.2.0")
    found = changes(root / "changelog.d")
    if not found:
        raise ChangelogError("changelog.d holds no change; there is nothing to release")
    page = root / "CHANGELOG.md"
    head, mark, rest = page.read_text(encoding="utf-8").partition("\n## ")
    text = f"{head}\n{section(f'{version} ({date})', found)}{mark}{rest}"
    page.write_text(text, encoding="utf-8")
    for _, _, path in found:
        path.unlink()


def main(arguments: list[str]) -> int:
    """See the module's text; 2 for a usage that is none, or files that cannot be used."""
    try:
        match arguments:
            case []:
                print(section("Next", changes(ROOT / "changelog.d")), end="")
            case ["release", version, *date] if len(date) <= 1:
                release(ROOT, version, date[0] if date else time.strftime("%Y-%m-%d"))
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except ChangelogError as error:
        print(f"scripts/changelog: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
