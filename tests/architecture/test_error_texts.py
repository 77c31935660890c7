"""Errors that people read say what happened and one thing to try, in words of their own."""

from __future__ import annotations

import functools
import re

import pytest

from commitlog.advice import BETWEEN, with_advice

from .error_texts import BASE, COMMAND_ERROR, ErrorText, advice_of, bases, is_a, texts

#: What one can be told to do. A text's advice has one of them, or names a command or an option.
_VERBS = """
    add acknowledge allow ask begin call change check choose commit connect correct create
    delete encode end exchange export find forget format free give go have import keep leave
    listen look lower make mend move name open pause point pull put raise read rebuild
    register remove repair replace reply resolve restart restore resume retry run say see
    seek select send set shorten split start stop subscribe take try unlock use wait write
"""
VERBS = frozenset(re.findall(r"\w+", _VERBS))


@functools.cache
def all_texts() -> tuple[ErrorText, ...]:
    """Read when a test asks: each worker imports this file, and one runs its tests."""
    return tuple(texts())


def is_advice(text: str) -> bool:
    """Does it tell what to do? A value of the moment ({}) is judged where it is made."""
    words = set(re.findall(r"[a-z]+", text.lower()))
    return bool(words & VERBS) or "dledger " in text or "--" in text or "{}" in text


def test_what_errors_of_ours_say_behind_the_semicolon_is_something_to_try() -> None:
    wrong = [
        f"{one.place} {one.kind}: {one.text}"
        for one in all_texts()
        if one.text and BETWEEN in one.text and not is_advice(one.text.partition(BETWEEN)[2])
    ]
    assert not wrong, "\n".join(wrong)


def test_no_text_is_only_what_happened() -> None:
    """One without advice gets its class's (`Advised.advice`); a class must have some, then."""
    wrong = [
        f"{one.place} {one.kind}: {one.text}"
        for one in all_texts()
        if (one.text is None or BETWEEN not in one.text)
        and one.kind != COMMAND_ERROR
        and not advice_of(one.kind)
    ]
    assert not wrong, "\n".join(wrong)


def test_every_command_says_what_to_try_itself() -> None:
    wrong = [
        one
        for one in all_texts()
        if one.kind == COMMAND_ERROR and one.text and BETWEEN not in one.text
    ]
    assert not wrong


def test_the_advice_of_every_class_is_something_to_try() -> None:
    kinds = [kind for kind in bases() if is_a(kind, BASE) and kind != BASE]
    wrong = {kind: said for kind in kinds if not is_advice(said := advice_of(kind))}
    made = {one.kind for one in all_texts()}
    assert not {name: said for name, said in wrong.items() if said or name in made}


def test_errors_that_leave_our_packages_are_advised() -> None:
    """What a caller, a client or a command may meet; errors that are caught inside are not."""
    inside = {
        *("MalformedFrame", "PeerRefused", "StateRecordError", "Sql92ParseError", "Sql92EvalError"),
        *(
            "SealNotOfNow",
            "RegistryFull",
            "TooManyLocks",
            "UsedBefore",
            "QuotaExceeded",
            "WindowFull",
            "Denied",
            "DelayNotReadable",
        ),
        *(
            "CompressionUnknown",
            "HandlerRefused",
            "PasswordMissing",
            "BadRow",
            "CircumstancesError",
        ),
        # The judge's own, said by its commands beside their usage.
        *("NotAnswering", "PatchDoesNotFit", "TwinDoesNotFit", "NotUpAgain", "CutHere", "Refused"),
        *("PorcupineError", "KafkaMissing", "SparkMissing", "ToxiproxyError", "CommandError"),
        # A rule of Raft was broken: the node ends with its story.
        *("SafetyViolation", "Violated", "PowerCut", "WindowFull"),
    }
    roots = ("Exception", "ValueError", "RuntimeError", "ImportError", "OSError", "ClickException")
    bare = {
        kind
        for kind, its in bases().items()
        if any(base in roots for base in its) and not is_a(kind, BASE) and not kind.startswith("_")
    }
    assert bare - inside - {BASE} == set()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("it is gone", "it is gone; look"),
        ("it is gone; make another", "it is gone; make another"),
        ("", ""),
    ],
)
def test_a_text_without_advice_gets_that_of_its_class(text: str, told: str) -> None:
    assert with_advice(text, "look") == told


def test_what_is_no_advice_is_found() -> None:
    assert not is_advice("queues count from 0")
    assert is_advice("give 0 or more")
    assert ErrorText("SettingsError", "", None) not in all_texts()
