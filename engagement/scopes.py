"""Users and accounts are two kinds of subject. This module says where each keeps its rows.

``get_kind("user")`` and ``get_kind("account")`` return a ``SubjectKind``: the models, tables, and
columns of a scope. Ask it instead of branching on the scope:

    kind = get_kind(scope)
    kind.model                     User or Account
    kind.engagement_model          UserEngagement or AccountEngagement
    kind.table                     "engagement_user"; for statements in SQL
    kind.engagement_table          "engagement_userengagement"
    kind.id_column                 "user_id"; in engagement rows, daily counts, and filters
    kind.path                      "user__"; from an engagement row to its subject, for filters
    kind.plural                    "users"; the field of CachedCounts and DailyBenchmark
    kind.benchmark(score_set)      the benchmark of now; or "_yesterday", "_last_period", …
    kind.quantiles(score_set)
    kind.engagement_rows(score_set)
    kind.subject_id(row)           the id of an engagement row's subject

``kind_of(row)`` returns the kind of a subject or of an engagement row.
"""

from dataclasses import dataclass
from typing import Any, LiteralString

from django.db.models import QuerySet

from engagement.metric_names import Scope
from engagement.models import Account, AccountEngagement, ScoreSet, User, UserEngagement


@dataclass(frozen=True)
class SubjectKind:
    """The models, tables, and columns of one scope."""

    scope: Scope
    model: type[User] | type[Account]
    engagement_model: type[UserEngagement] | type[AccountEngagement]
    table: LiteralString
    engagement_table: LiteralString
    id_column: LiteralString
    path: LiteralString
    plural: LiteralString

    def benchmark(self, score_set: ScoreSet, of: LiteralString = "") -> float | None:
        """The set's benchmark; *of* is "", "_yesterday", "_last_period", or
        "_yesterday_last_period"."""
        benchmark: float | None = getattr(score_set, f"{self.scope}_benchmark{of}")
        return benchmark

    def quantiles(self, score_set: ScoreSet) -> list[int]:
        """The quantiles of the set's raw scores above zero, for percentiles."""
        quantiles: list[int] = getattr(score_set, f"{self.scope}_quantiles")
        return quantiles

    def engagement_rows(self, score_set: ScoreSet) -> QuerySet[Any]:
        """The set's engagement rows. Naming the product lets the key find them."""
        rows: QuerySet[Any] = self.engagement_model._default_manager.all()
        return rows.filter(product_id=score_set.product_id, score_set=score_set)

    def subject_id(self, row: UserEngagement | AccountEngagement) -> int:
        subject_id: int = getattr(row, self.id_column)
        return subject_id


USERS = SubjectKind(
    scope="user",
    model=User,
    engagement_model=UserEngagement,
    table="engagement_user",
    engagement_table="engagement_userengagement",
    id_column="user_id",
    path="user__",
    plural="users",
)
ACCOUNTS = SubjectKind(
    scope="account",
    model=Account,
    engagement_model=AccountEngagement,
    table="engagement_account",
    engagement_table="engagement_accountengagement",
    id_column="account_id",
    path="account__",
    plural="accounts",
)


def get_kind(scope: str) -> SubjectKind:
    """The kind of a scope, given as a string or as one of a model's choices."""
    return {"user": USERS, "account": ACCOUNTS}[scope]


def kind_of(row: User | Account | UserEngagement | AccountEngagement) -> SubjectKind:
    return USERS if isinstance(row, User | UserEngagement) else ACCOUNTS
