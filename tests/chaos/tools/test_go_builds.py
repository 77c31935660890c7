"""Go's library is compiled once for all programs that are built here (chaos/tools/go_builds.py)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chaos.judges.porcupine import judge
from chaos.tools import go_builds
from chaos.toxiproxy import official
from tests.interop.harness import toolchains

# Packages of Go's cache are found again when all of these are the same.
SHARED = ("GOPATH", "GOCACHE", "CGO_ENABLED", "GOFLAGS")


def test_programs_that_are_built_with_go_share_a_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each build of the toxiproxy server compiled Go's library anew: half a minute of work."""
    told = tmp_path / "told"
    fake = tmp_path / "go"
    values = " ".join(f'"${name}"' for name in SHARED)
    fake.write_text(f"#!/bin/sh\nprintf '%s\\n' {values} GO$1 >>{told}\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(official, "FOLDER", tmp_path / "toxiproxy")
    with pytest.raises(OSError, match="go install"):
        official.build()
    with pytest.raises(judge.PorcupineError, match="could not be built"):
        judge.build(tmp_path / "porcupine")
    with pytest.raises(toolchains.Missing, match="go build"):
        toolchains.go_build(tmp_path, tmp_path / "client", ".")
    lines = told.read_text().splitlines()
    builds = [lines[at : at + 5] for at in range(0, len(lines), 5)]
    assert [build.pop() for build in builds] == ["GOinstall", "GObuild", "GObuild"]
    assert builds[0] == builds[1] == builds[2]
    assert builds[0][:3] == [str(go_builds.CACHE), str(go_builds.CACHE / "build"), "0"]


def test_a_build_may_have_a_cache_of_its_own(tmp_path: Path) -> None:
    around = go_builds.environment(tmp_path, GOBIN="/x")
    assert around["GOCACHE"] == str(tmp_path / "build")
    assert around["GOBIN"] == "/x"
    assert around["PATH"] == os.environ["PATH"]
