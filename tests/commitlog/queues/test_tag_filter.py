"""Tag subscriptions against tags codes (docs/spec/store.md 3.1)."""

from __future__ import annotations

import pytest

from commitlog.queues.queue_entry import tags_code
from commitlog.queues.tag_filter import matches, subscription_hashes


def test_a_subscription_of_two_tags() -> None:
    hashes = subscription_hashes(" TagA || polygenelubricants||")
    assert hashes == {2598919, -2147483648}
    assert matches(tags_code("TagA"), hashes)
    assert matches(tags_code("polygenelubricants"), hashes)
    assert not matches(tags_code("TagB"), hashes)
    assert not matches(0, hashes)


@pytest.mark.parametrize("expression", ["", "*"])
def test_everything(expression: str) -> None:
    assert matches(tags_code("any"), subscription_hashes(expression))
    assert matches(0, subscription_hashes(expression))


def test_only_the_low_32_bits_count() -> None:
    assert matches((7 << 32) | 2598919, subscription_hashes("TagA"))
