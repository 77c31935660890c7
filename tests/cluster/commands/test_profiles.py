"""Profiles: kept, chosen, and taken by commands that are told no address."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from cluster.commands.connecting import Reach, _filled
from cluster.commands.errors import CommandError
from cluster.commands.named_reaches import NamedReach, load_profiles, profiles_file
from tests.command_line import run

PROD = "10.0.0.1:9876;10.0.0.2:9876"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DLEDGER_HOME", str(tmp_path))
    for name in ("NAMESRV_ADDR", "DLEDGER_PROFILE", "DLEDGER_ACCOUNT", "DLEDGER_TLS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def dledger(home: Path, words: str, **shell: str) -> tuple[int, str]:
    done = run(*words.split(), env={"DLEDGER_HOME": str(home), **shell}, cwd=home)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def account(home: Path) -> Path:
    file = home / "prod.yml"
    file.write_text("accessKey: a\nsecretKey: secret\n")
    return file


def test_profile_is_kept_changed_and_forgotten(home: Path, account: Path) -> None:
    assert dledger(home, f"profile create prod -a {PROD} --account prod.yml --use")[0] == 0
    code, said = dledger(home, "profile show -o json")
    assert (code, json.loads(said)[0]["address"]) == (0, PROD)
    assert json.loads(said)[0]["account"] == str(account), "as a command elsewhere finds it"
    assert "secret" not in profiles_file().read_text(), "the secret stays in its own file"
    assert stat.S_IMODE(profiles_file().stat().st_mode) == 0o600
    assert dledger(home, "profile alter prod -a 10.0.0.9:9876")[0] == 0
    kept = load_profiles().get("prod")
    assert (kept.address, kept.account) == ("10.0.0.9:9876", str(account))
    assert dledger(home, "profile delete prod --yes")[0] == 0
    assert (load_profiles().profiles, load_profiles().in_use) == ({}, "")
    assert account.exists()


def test_what_the_shell_has_set_is_said_and_not_kept(home: Path, account: Path) -> None:
    shell = {"DLEDGER_ACCOUNT": str(account), "DLEDGER_TLS": "system", "DLEDGER_TLS_ANY_HOST": "1"}
    code, said = dledger(home, f"profile create prod -a {PROD}", **shell)
    assert code == 0, said
    assert "not kept: $DLEDGER_ACCOUNT and $DLEDGER_TLS and $DLEDGER_TLS_ANY_HOST" in said
    assert load_profiles().get("prod") == NamedReach(PROD)
    code, said = dledger(home, "profile alter prod --account prod.yml", **shell)
    assert (code, "$DLEDGER_ACCOUNT" in said, "$DLEDGER_TLS" in said) == (0, False, True)
    assert load_profiles().get("prod") == NamedReach(PROD, str(account))
    code, said = dledger(home, "profile alter prod -a 10.0.0.9:9876")
    assert (code, said) == (0, "prod is changed\n")


def test_profile_in_use_is_taken_only_without_an_address(
    home: Path, account: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dledger(home, f"profile create prod -a {PROD} --account prod.yml --use")
    assert _filled(Reach(), None) == Reach(PROD, account)
    assert _filled(Reach("h:1"), None) == Reach("h:1"), "the account is for another cluster"
    assert _filled(Reach("h:1"), "prod") == Reach("h:1", account), "both were asked for"
    dledger(home, "profile create other -a h:3")
    monkeypatch.setenv("DLEDGER_PROFILE", "other")
    assert _filled(Reach(), None) == Reach("h:3")
    assert _filled(Reach("h:1"), None) == Reach("h:1")
    monkeypatch.delenv("DLEDGER_PROFILE")
    monkeypatch.setenv("NAMESRV_ADDR", "h:2")
    assert _filled(Reach(), None) == Reach()
    assert _filled(Reach(), "prod") == Reach(PROD, account)


def test_tls_is_taken_as_a_whole(home: Path) -> None:
    dledger(home, f"profile create prod -a {PROD} --tls system --tls-any-host")
    assert _filled(Reach(), "prod") == Reach(PROD, None, "system", any_host=True)
    assert _filled(Reach(tls="ca.pem"), "prod") == Reach(PROD, None, "ca.pem")


def test_command_reaches_what_its_profile_names(home: Path) -> None:
    dledger(home, "profile create here -a 127.0.0.1:1")
    for words in ("topic list --profile here", "status --profile here"):
        assert "127.0.0.1:1 could not be reached" in dledger(home, words)[1]
    dledger(home, "profile use here")
    assert "127.0.0.1:1 could not be reached" in dledger(home, "topic list")[1]
    assert dledger(home, "profile use --none") == (0, "no profile is in use\n")
    assert "no name server is known" in dledger(home, "topic list")[1]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("create prod -a h:1", 2, "there is a profile prod already; dledger profile alter prod"),
        ("create a/b -a h:1", 2, "'a/b' is no name of a profile; use up to 60 letters"),
        ("create x", 2, "a profile needs an address; give -a HOST:PORT"),
        ("create x -a h", 2, "'h' is no address; write host:port"),
        ("create x -a h:1 --account nosuch.yml", 2, "nosuch.yml cannot be read"),
        ("create x -a h:1 --tls-any-host", 2, "says nothing by itself"),
        ("alter prod", 2, "prod is as it was; give -a, --account or --tls"),
        ("alter nosuch -a h:1", 3, "no profile nosuch; dledger profile list shows"),
        ("show", 2, "no profile is in use; dledger profile list shows all"),
        ("show nosuch", 3, "no profile nosuch; dledger profile list shows"),
        ("use", 2, "one profile is needed; name it, or give --none"),
        ("use nosuch", 3, "no profile nosuch; dledger profile list shows"),
        ("delete nosuch --yes", 3, "no profile nosuch; dledger profile list shows"),
        ("delete prod", 2, "prod was not deleted, since nobody can be asked here"),
    ],
)
def test_wrong_uses_say_what_to_try(home: Path, words: str, code: int, said: str) -> None:
    dledger(home, f"profile create prod -a {PROD}")
    before = profiles_file().read_bytes()
    found = dledger(home, f"profile {words}")
    assert (found[0], said in found[1]) == (code, True), found
    assert profiles_file().read_bytes() == before


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"version": 1, "in_use": "x", "profiles": {}}',
        '{"version": 1, "in_use": "", "profiles": {"x": {"address": 1}}}',
        '{"version": 1, "in_use": "", "profiles": {"x": {"address": "h:1", "tls_any_host": "no"}}}',
    ],
)
def test_file_of_something_else_is_said_and_left_alone(home: Path, text: str) -> None:
    profiles_file().write_text(text)
    with pytest.raises(CommandError, match="correct it, or delete it"):
        load_profiles()
    assert "correct it, or delete it" in dledger(home, "profile create x -a h:1")[1]
    assert profiles_file().read_text() == text


def test_a_file_of_a_later_release_is_said_and_left_alone(home: Path) -> None:
    profiles_file().write_text(text := '{"version": 2}')
    wanted = "is of version 2, and this release knows 1; use the release that wrote it"
    with pytest.raises(CommandError, match=wanted):
        load_profiles()
    assert wanted in dledger(home, "profile create x -a h:1")[1]
    assert profiles_file().read_text() == text
