"""What the read API asks the database. Everything stays inside one product and one workspace."""

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Greatest, Left, Lower
from django.db.models.lookups import Exact

from engagement.metric_names import Scope
from engagement.models import (
    Account,
    AccountEngagement,
    Product,
    Segment,
    User,
    UserEngagement,
    Workspace,
)
from engagement.models.subjects import INDEXED_TEXT_LENGTH
from engagement.rules.trait_filters import trait_equals
from engagement.segments import members as rules
from readapi.errors import NotFound
from readapi.pagination import Order
from readapi.parameters import Lookup

# Highest score first; the indexes user_ranking and account_ranking hold these orders.
USER_RANKING = Order(("raw", "user_id"), descending=True)
ACCOUNT_RANKING = Order(("raw", "account_id"), descending=True)
WORKSPACE_ORDER = Order(("id",))
SEGMENT_ORDER = Order(("id",))


class AccountNames(TypedDict):
    account_name: Any


class UserNames(TypedDict):
    user_name: Any
    user_email: Any
    current_account_name: Any


if TYPE_CHECKING:
    from django_stubs_ext import WithAnnotations

    RankedAccount: TypeAlias = WithAnnotations[AccountEngagement, AccountNames]
    RankedUser: TypeAlias = WithAnnotations[UserEngagement, UserNames]


def workspaces(
    product: Product,
    quantiles_of: Literal["user", "account", "both", "none"] = "none",
    *,
    tallied: bool = False,
) -> QuerySet[Workspace]:
    """The product's workspaces with the scores that readers see.

    Quantiles are long, and only percentiles need them. *tallied* brings the tallies along.
    """
    scores = "scores__tally" if tallied else "scores"
    shown = Workspace.objects.filter(product=product).select_related(scores)
    if quantiles_of == "both":
        return shown
    unneeded = {"user", "account"} - {quantiles_of}
    return shown.defer(*(f"scores__{scope}_quantiles" for scope in sorted(unneeded)))


def workspace(
    product: Product,
    workspace_id: int,
    quantiles_of: Literal["user", "account", "both", "none"] = "none",
    *,
    tallied: bool = False,
) -> Workspace:
    """The product's workspace; NotFound for an unknown one and for another product's alike."""
    found = workspaces(product, quantiles_of, tallied=tallied).filter(id=workspace_id).first()
    if found is None:
        raise NotFound
    return found


# What a list shows. Naming the columns keeps traits, which may be large, out of a page.
SUMMARY_COLUMNS = ("raw", "raw_yesterday", "raw_last_period", "last_active_at")
ACCOUNT_SUMMARY_COLUMNS = (*SUMMARY_COLUMNS, "active_users", "account__external_id")
USER_SUMMARY_COLUMNS = (
    *SUMMARY_COLUMNS,
    "user__external_id",
    "user__account__external_id",
    "user__account__is_identified",
)
METRIC_COLUMNS = ("event_count", "active_days", "name_count")
ACCOUNT_METRIC_COLUMNS = (*METRIC_COLUMNS, "total_users")
SUBJECT_COLUMNS = ("traits", "first_seen_at", "last_seen_at", "created_at")
ACCOUNT_COLUMNS = (
    *ACCOUNT_SUMMARY_COLUMNS,
    *METRIC_COLUMNS,
    "total_users",
    *(f"account__{column}" for column in SUBJECT_COLUMNS),
)
USER_COLUMNS = (
    *USER_SUMMARY_COLUMNS,
    *METRIC_COLUMNS,
    *(f"user__{column}" for column in SUBJECT_COLUMNS),
)


def ranked_accounts(
    workspace: Workspace, match: Lookup | None = None
) -> "QuerySet[RankedAccount, RankedAccount]":
    """The workspace's accounts, or the one that *match* finds, with what a list shows.

    A page reads one range of the index account_ranking and joins its accounts by id. Saying
    here that the accounts are of the product too would add nothing, and tempts the planner to
    join by that alone while a new product is missing from its statistics.
    """
    accounts = AccountEngagement.objects.filter(
        product_id=workspace.product_id, score_set=workspace.scores_id
    )
    if match is not None:
        accounts = accounts.filter(account_id=_account_seen_last(workspace, match))
    return (
        accounts.select_related("account")
        .only(*ACCOUNT_SUMMARY_COLUMNS)
        .annotate(account_name=F("account__traits__name"))
    )


def ranked_users(
    workspace: Workspace, match: Lookup | None = None
) -> "QuerySet[RankedUser, RankedUser]":
    """The workspace's users with their current accounts, as ``ranked_accounts`` has accounts."""
    users = UserEngagement.objects.filter(
        product_id=workspace.product_id, score_set=workspace.scores_id
    )
    if match is not None:
        users = users.filter(user_id=_user_seen_last(workspace, match))
    return (
        users.select_related("user__account")
        .only(*USER_SUMMARY_COLUMNS)
        .annotate(
            user_name=F("user__traits__name"),
            user_email=F("user__traits__email"),
            current_account_name=F("user__account__traits__name"),
        )
    )


def account(workspace: Workspace, account_id: int) -> "RankedAccount":
    """One account of the workspace with its traits; NotFound where the workspace shows none."""
    found = ranked_accounts(workspace).only(*ACCOUNT_COLUMNS).filter(account_id=account_id).first()
    if found is None:
        raise NotFound
    return found


def user(workspace: Workspace, user_id: int) -> "RankedUser":
    """One user of the workspace with their traits; NotFound where the workspace shows none."""
    found = ranked_users(workspace).only(*USER_COLUMNS).filter(user_id=user_id).first()
    if found is None:
        raise NotFound
    return found


def find_account(workspace: Workspace, match: Lookup) -> "RankedAccount":
    """The account that *match* finds, with its traits; NotFound where it finds none."""
    found = ranked_accounts(workspace, match).only(*ACCOUNT_COLUMNS).first()
    if found is None:
        raise NotFound
    return found


def segments(
    workspace: Workspace, scope: Scope | None = None, custom_only: bool = False
) -> QuerySet[Segment]:
    """The workspace's segments, of one scope or of both."""
    found = Segment.objects.filter(workspace=workspace).order_by("id")
    if scope is not None:
        found = found.filter(scope=scope)
    return found.filter(is_default=False) if custom_only else found


def segment(workspace: Workspace, segment_id: int) -> Segment:
    """The workspace's segment; NotFound where it has none with this id."""
    found = segments(workspace).filter(id=segment_id).first()
    if found is None:
        raise NotFound
    return found


def members(rows: QuerySet[Any], workspace: Workspace, segment: Segment) -> QuerySet[Any]:
    """Those of the workspace's ranked *rows*, of the segment's scope, that are its members."""
    if workspace.scores is None:
        return rows
    return rows.filter(rules.members_filter(workspace.scores, rules.segment_rule(segment)))


def _account_seen_last(workspace: Workspace, match: Lookup) -> Subquery:
    # An account was seen when a message named it, which a license sync does with all of them, and
    # when somebody did something there: events seldom name their account.
    seen = Greatest("last_seen_at", "engagements__last_active_at").desc()
    found = Account.objects.filter(
        _matches(match, "domain"),
        product_id=workspace.product_id,
        engagements__product_id=workspace.product_id,
        engagements__score_set=workspace.scores_id,
    )
    return Subquery(found.order_by(seen, "-id").values("id")[:1])


def _user_seen_last(workspace: Workspace, match: Lookup) -> Subquery:
    users = User.objects.filter(product_id=workspace.product_id)
    shown = UserEngagement.objects.filter(
        product_id=workspace.product_id, score_set=workspace.scores_id, user_id=OuterRef("id")
    )
    # Whatever a user does names them.
    found = users.filter(_matches(match, "email"), Exists(shown))
    return Subquery(found.order_by("-last_seen_at", "-id").values("id")[:1])


def _matches(match: Lookup, ignoring_case: str) -> Q:
    """What a subject must be for the look-up; *ignoring_case* is the trait that ignores it."""
    if match.kind == "tracking_id":
        return Q(external_id=match.value)
    if match.kind == ignoring_case:
        return _same_text(match.kind, match.value)
    return trait_equals("traits", match.kind, match.value)


def _same_text(name: str, value: str) -> Q:
    """The trait is *value* but for case.

    The first comparison is what the indexes user_email and account_domain hold, spelled as they
    spell it; the second tells longer texts apart.
    """
    trait = KeyTextTransform(name, "traits")
    indexed = Lower(Left(trait, INDEXED_TEXT_LENGTH))
    return Q(
        Exact(indexed, Lower(Left(Value(value), INDEXED_TEXT_LENGTH))),
        Exact(Lower(trait), Lower(Value(value))),
    )
