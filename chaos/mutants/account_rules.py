"""Mutants of accounts in the log: on every node at once, never without an administrator (R29)."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch

_ACCOUNTS = "tests/cluster/broker/test_accounts.py::"
_LEVELS = "tests/cluster/core/test_feature_level.py::"
_JUDGED = "tests/cluster/broker/test_accounts_judged.py::"
_POLICIES = "tests/cluster/core/access/test_policies.py::"
_ROCKETMQ = "tests/cluster/broker/test_rocketmq_accounts.py::"

ACCOUNTS = (
    Mutant(
        "a-second-change-of-accounts-is-checked-against-what-was-before-the-first",
        ("R29",),
        (
            Patch(
                "cluster.broker.access.accounts.changes",
                "    if ports.writer.accounts_in_log.is_changing(ACCOUNTS):\n",
                "    if False:\n",
            ),
        ),
        tests=(f"{_ACCOUNTS}test_the_last_administrator_stays_however_two_are_deleted",),
    ),
    Mutant(
        "a-leader-believes-whose-a-request-is-that-a-follower-passes-on",
        ("R29",),
        (
            Patch(
                "cluster.security.access_file",
                "            caller = self._signed(address, frame)\n        except",
                "            caller = self.caller_with(address, frame.ext.get('AccessKey', ''))\n"
                "        except",
            ),
        ),
        tests=(
            f"{_JUDGED}test_a_follower_that_lags_lets_nobody_do_what_its_account_may_no_longer",
        ),
    ),
    Mutant(
        "a-leader-asks-no-right-of-what-a-follower-passes-on",
        ("R29",),
        (
            Patch(
                "cluster.broker.kernel.net.router",
                "        if not isinstance(needs, Needs):\n            call.require",
                "        if not isinstance(needs, Needs) and not connection.forwarded_by:\n"
                "            call.require",
            ),
        ),
        tests=(
            f"{_JUDGED}test_a_follower_that_lags_lets_nobody_do_what_its_account_may_no_longer",
        ),
    ),
    Mutant(
        "a-peer-that-proves-nothing-is-believed",
        ("R29",),
        (
            Patch(
                "cluster.security.access_file",
                "        if not self._peers_prove:\n",
                "        if False:\n",
            ),
        ),
        tests=(f"{_ACCOUNTS}test_who_says_to_be_a_node_and_proves_nothing_is_believed_nothing",),
    ),
    Mutant(
        "what-waited-for-a-leader-is-served-by-the-accounts-of-before",
        ("R29",),
        (
            Patch(
                "cluster.broker.kernel.net.router",
                "if self.access.is_on and self._leadership.serving is not Serving.WAITING:",
                "if False:",
            ),
        ),
        tests=(
            f"{_ACCOUNTS}"
            "test_what_waited_for_a_leader_is_not_served_without_an_account_that_came_meanwhile",
            f"{_JUDGED}test_what_was_held_is_judged_before_it_is_passed_on",
            f"{_JUDGED}test_what_was_held_does_nothing_that_its_account_may_no_longer",
        ),
    ),
    Mutant(
        "sends-that-waited-are-served-by-the-accounts-of-before",
        ("R29",),
        (
            Patch(
                "cluster.broker.kernel.net.router",
                "        if not self.access.is_on:\n            self.sends(connection, requests",
                "        if True:\n            self.sends(connection, requests",
            ),
        ),
        tests=(
            f"{_JUDGED}test_sends_that_a_leadership_refused_are_judged_when_they_are_asked_again",
            f"{_JUDGED}test_a_send_that_waited_for_its_topic_is_judged_again",
        ),
    ),
    Mutant(
        "a-send-in-doubt-needs-no-right",
        ("R29",),
        (
            Patch(
                "cluster.broker.kernel.net.doubts",
                "                caller = self._callers.of_doubt(connection, asked)\n"
                "                require(caller, needs_of_send(request))\n",
                "                caller = access.caller_with(connection.address, 'a-writer')\n",
            ),
        ),
        tests=(f"{_JUDGED}test_a_send_in_doubt_of_an_account_that_may_no_longer_is_not_stored",),
    ),
    Mutant(
        "what-waits-for-a-message-keeps-the-rights-that-it-came-with",
        ("R29",),
        (
            Patch(
                "cluster.broker.reactions",
                "        self._access.on_change(self._accounts_changed)\n",
                "",
            ),
        ),
        tests=(f"{_JUDGED}test_what_waits_for_a_message_gets_none_by_rights_that_it_has_no_more",),
    ),
    Mutant(
        "what-is-denied-to-an-address-is-allowed-where-it-is-not-known",
        ("R29",),
        (
            Patch(
                "cluster.core.access.policy_index",
                " and (address is None or networks.hold(address)):\n",
                " and networks.hold(address):\n",
            ),
        ),
        tests=(f"{_POLICIES}test_what_is_denied_stays_so_however_the_address_is_written",),
    ),
    Mutant(
        "what-is-denied-to-all-addresses-of-one-kind-is-allowed-to-the-other",
        ("R29",),
        (
            Patch(
                "cluster.core.access.policy_index",
                "        if denies and network.prefixlen == 0:\n",
                "        if False:\n",
            ),
        ),
        tests=(f"{_POLICIES}test_a_deny_of_all_addresses_is_for_every_client",),
    ),
    Mutant(
        "what-is-denied-to-ipv6-around-ipv4-is-allowed-to-ipv4",
        ("R29",),
        (
            Patch(
                "cluster.core.access.policy_index",
                "        if denies and bits != _IPV4_BITS and ",
                "        if False and ",
            ),
        ),
        tests=(f"{_POLICIES}test_a_deny_of_a_network_is_for_all_who_are_in_it",),
    ),
    Mutant(
        "a-mark-is-logged-for-a-change-that-is-refused",
        ("R28",),
        (
            Patch(
                "cluster.broker.access.accounts.changes",
                "    mark = _mark(ports, level_of_accounts(rows))\n",
                "    mark = _mark(ports, level_of_accounts(rows))\n"
                "    if mark is not None:\n"
                "        ports.writer.write(mark, lambda error: None)\n",
            ),
        ),
        tests=(f"{_JUDGED}test_a_change_that_the_log_does_not_take_brings_no_mark",),
    ),
    Mutant(
        "rows-are-logged-as-they-are-written",
        ("R29",),
        (
            Patch(
                "cluster.broker.access.accounts.changes",
                "        return logged_row(row)\n",
                "        return dict(row)\n",
            ),
        ),
        tests=(f"{_ROCKETMQ}test_rows_of_any_legal_spelling_are_listed_and_taken_away",),
    ),
    Mutant(
        "accounts-are-logged-before-every-member-understands-them",
        ("R28", "R29"),
        (
            Patch(
                "cluster.broker.kernel.write.level_mark",
                "    if older:\n",
                "    if False:\n",
            ),
        ),
        tests=(
            "tests/cluster/broker/test_first_account.py::"
            "test_the_first_account_waits_for_members_of_an_older_version",
        ),
    ),
    Mutant(
        "two-secrets-are-logged-before-every-member-understands-them",
        ("R28", "R29"),
        (
            Patch(
                "cluster.core.leveled_tables",
                "        return SECRETS_LEVEL\n",
                "        return ACCOUNTS_LEVEL\n",
            ),
        ),
        tests=(
            "tests/cluster/broker/test_secret_rotation.py::"
            "test_a_member_of_an_older_version_keeps_two_secrets_out_of_the_log",
        ),
    ),
    Mutant(
        "quotas-are-logged-before-every-member-understands-them",
        ("R28", "R29"),
        (
            Patch(
                "cluster.core.leveled_tables",
                "    return QUOTAS_LEVEL if has_quota else ACCOUNTS_LEVEL\n",
                "    return ACCOUNTS_LEVEL\n",
            ),
        ),
        tests=(
            "tests/cluster/broker/test_quotas.py::"
            "test_a_member_of_an_older_version_keeps_quotas_out_of_the_log",
        ),
    ),
    Mutant(
        "settings-are-logged-without-the-mark-of-their-level",
        ("R28",),
        (
            Patch(
                "cluster.broker.admin.figures.runtime",
                "(change,) if mark is None else (mark, change)",
                "(change,)",
            ),
        ),
        tests=(
            "tests/cluster/broker/test_live_settings.py::"
            "test_a_setting_counts_on_every_node_and_after_a_restart",
        ),
    ),
    Mutant(
        "settings-count-below-their-feature-level",
        ("R28",),
        (
            Patch(
                "cluster.core.leveled_tables",
                "            if self.level.value >= SETTINGS_LEVEL:\n",
                "            if True:\n",
            ),
        ),
        tests=(f"{_LEVELS}test_records_below_their_level_are_passed_over",),
    ),
    Mutant(
        "accounts-send-more-than-their-quota",
        ("R29",),
        (
            Patch(
                "cluster.core.access.quota",
                "bucket.fill(now) < 1",
                "bucket.fill(now) is None",
            ),
        ),
        tests=("tests/cluster/core/access/test_quota.py::test_a_batch_counts_its_messages",),
    ),
)
