"""Small files of changelog.d become a section of CHANGELOG.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.changelog_files import ChangelogError, changes, main, release, section

from .pages import ROOT


def _root(folder: Path, **files: str) -> Path:
    (folder / "changelog.d").mkdir()
    (folder / "changelog.d" / "README.md").write_text("about")
    (folder / "CHANGELOG.md").write_text("# Changelog\n\nWords.\n\n## 0.1.0 (then)\n\n* old\n")
    for name, text in files.items():
        (folder / "changelog.d" / f"{name.replace('__', '.')}.md").write_text(text)
    return folder


def test_the_files_of_this_checkout_can_be_released() -> None:
    assert section("Next", changes(ROOT / "changelog.d")).startswith("## Next\n")


def test_a_release_takes_all_files_and_keeps_what_was_there(tmp_path: Path) -> None:
    root = _root(tmp_path, b__fixed="A repair.\n", a__fixed="One.\nMore.", c__added="New.")
    release(root, "0.2.0", "2027-01-02")
    assert (root / "CHANGELOG.md").read_text() == (
        "# Changelog\n\nWords.\n\n## 0.2.0 (2027-01-02)\n\n### Added\n\n* New.\n\n### Fixed\n\n"
        "* One.\n  More.\n* A repair.\n\n## 0.1.0 (then)\n\n* old\n"
    )
    assert [path.name for path in (root / "changelog.d").iterdir()] == ["README.md"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [("a__new", "x", "has no kind"), ("a", "x", "has no kind"), ("a__fixed", " \n", "is empty")],
)
def test_a_file_that_cannot_be_used_is_named(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    root = _root(tmp_path, **{name: text})
    before = (root / "CHANGELOG.md").read_text()
    with pytest.raises(ChangelogError, match=said):
        release(root, "0.2.0", "2027-01-02")
    assert (root / "CHANGELOG.md").read_text() == before


def test_a_release_without_a_change_or_a_version_is_refused(tmp_path: Path) -> None:
    root = _root(tmp_path)
    with pytest.raises(ChangelogError, match="no change"):
        release(root, "0.2.0", "2027-01-02")
    with pytest.raises(ChangelogError, match="no version"):
        release(root, "two", "2027-01-02")
    assert main(["release"]) == 2
