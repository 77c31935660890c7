"""Routes of administrators for accounts and their rights."""

from __future__ import annotations

from cluster.console.api import accounts
from cluster.console.api.paging import CURSOR, FILTER, limit
from cluster.console.api.roles import Role
from cluster.console.api.table import Parameter, Route
from cluster.core.access.quota import QUOTA_MAX

ACCOUNT_PATH = Parameter("account", "the access key of an account", place="path", required=True)
_LIST_LENGTH_MAX = 8192
RIGHTS = (
    Parameter("admin", "may it do everything?", place="body", kind="boolean"),
    Parameter(
        "topics",
        "all of its rights of topics, as orders=PUB|SUB news=SUB",
        place="body",
        length_max=_LIST_LENGTH_MAX,
    ),
    Parameter(
        "groups",
        "all of its rights of groups, as billing=SUB",
        place="body",
        length_max=_LIST_LENGTH_MAX,
    ),
    *(
        Parameter(f"default_{kind}", f"its right of all other {kind}s", place="body", choices=found)
        for kind, found in (("topic", accounts.PERMISSIONS), ("group", accounts.PERMISSIONS))
    ),
    *(
        Parameter(name, f"{what}; 0: none", place="body", kind="integer", most=QUOTA_MAX)
        for name, what in zip(
            accounts.QUOTAS,
            (
                "quota of its sends, in messages a second",
                "quota of its sends, in bytes of bodies a second",
                "quota of its connections to each node",
            ),
            strict=True,
        )
    ),
)
_REFUSED = (404, 409, 413, 415)

ACCOUNTS: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/api/v1/accounts",
        role=Role.ADMIN,
        summary="Accounts of the log by name, with their rights and without their secrets.",
        answer="AccountPage",
        handler=accounts.list_of_accounts,
        parameters=(FILTER, limit(), CURSOR),
    ),
    Route(
        method="POST",
        path="/api/v1/accounts",
        role=Role.ADMIN,
        summary="Create an account, the first one an admin; this answer alone tells its secret.",
        answer="AccountChanged",
        handler=accounts.create_account,
        parameters=(
            Parameter("account", "give its access key", place="body", required=True),
            *RIGHTS,
        ),
        command="dledger account create {account}",
        statuses=_REFUSED,
    ),
    Route(
        method="PATCH",
        path="/api/v1/accounts/{account}",
        role=Role.ADMIN,
        summary="Change the given rights of an account, shut it, or draw another secret.",
        answer="AccountChanged",
        handler=accounts.alter_account,
        parameters=(
            ACCOUNT_PATH,
            *RIGHTS,
            Parameter("enabled", "may it ask at all?", place="body", kind="boolean"),
            Parameter(
                "new_secret",
                "draw another secret, which this answer alone tells; the old one ends",
                place="body",
                kind="boolean",
                default=False,
            ),
        ),
        command="dledger account alter {account}",
        statuses=_REFUSED,
    ),
    Route(
        method="DELETE",
        path="/api/v1/accounts/{account}",
        role=Role.ADMIN,
        summary="Delete an account; its requests are refused from then on.",
        answer="Changed",
        handler=accounts.delete_account,
        parameters=(ACCOUNT_PATH,),
        command="dledger account delete {account}",
        statuses=_REFUSED,
    ),
)
