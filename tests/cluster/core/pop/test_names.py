"""Which retry topics are a topic's own: a name may be read in two ways."""

from __future__ import annotations

import pytest

from cluster.core.pop.names import retry_topics_of

TOPICS = ("c", "b_c", "%RETRY%a", "%RETRY%a+c", "%RETRY%a_c", "%RETRY%a_b_c", "%RETRY%x_c")


@pytest.mark.parametrize(
    ("topic", "groups", "found"),
    [
        ("c", ("a",), ["%RETRY%a+c", "%RETRY%a_c"]),
        ("c", ("a_b",), ["%RETRY%a_b_c"]),
        ("b_c", ("a",), ["%RETRY%a_b_c"]),
        ("c", ("a", "a_b"), ["%RETRY%a+c", "%RETRY%a_c"]),  # a_b_c may be of group a and b_c
        ("b_c", ("a", "a_b"), []),
        ("c", ("x_c", "x"), []),  # the plain retry topic of group x_c
        ("none", ("a",), []),
        ("%RETRY%a", ("a",), []),
    ],
)
def test_retry_topics_are_those_that_no_other_topic_may_have(
    topic: str, groups: tuple[str, ...], found: list[str]
) -> None:
    assert retry_topics_of(topic, groups, TOPICS) == found
