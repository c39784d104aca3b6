"""The read API's queries. Each is limited to one product, and most to one workspace."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, TypeVar

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import (
    Case,
    Exists,
    F,
    Func,
    JSONField,
    Model,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Coalesce, Greatest, JSONObject, Left, Lower
from django.db.models.lookups import Exact

from engagement.activity.reading import AnyOf, last_decided_day
from engagement.license_traits import SEATS_TRAIT
from engagement.metric_names import Scope
from engagement.models import (
    Account,
    AccountEngagement,
    Product,
    Segment,
    User,
    UserEngagement,
    Workspace,
    last_seen,
)
from engagement.models.subjects import INDEXED_TEXT_LENGTH
from engagement.rules.trait_filters import trait_equals
from engagement.scopes import get_kind
from engagement.segments.members import members_filter, segment_rule
from engagement.traits import canonical_name
from readapi.errors import NotFound
from readapi.pagination import Order
from readapi.parameters import Lookup

# Highest score first, as in the indexes user_ranking and account_ranking.
USER_RANKING = Order(("raw", "user_id"), descending=True)
ACCOUNT_RANKING = Order(("raw", "account_id"), descending=True)
WORKSPACE_ORDER = Order(("id",))
SEGMENT_ORDER = Order(("id",))


Row = TypeVar("Row", bound=Model)
Quantiles: TypeAlias = Literal["user", "account", "both", "none"]


class AccountNames(TypedDict):
    tracking_id: str
    account_name: Any


class UserNames(TypedDict):
    tracking_id: str
    user_name: Any
    user_email: Any
    current_account_id: int | None
    current_account_tracking_id: Any
    current_account_name: Any


if TYPE_CHECKING:
    from django_stubs_ext import WithAnnotations

    RankedAccount: TypeAlias = WithAnnotations[AccountEngagement, AccountNames]
    RankedUser: TypeAlias = WithAnnotations[UserEngagement, UserNames]


def workspaces(
    product: Product,
    quantiles_of: Quantiles = "none",
    *,
    with_counts: bool = False,
) -> QuerySet[Workspace]:
    """The product's workspaces with their published scores, and the last day after which their
    alarms were decided.

    Quantiles are long, and only percentiles need them. *with_counts* adds the cached counts.
    """
    scores = "scores__cached_counts" if with_counts else "scores"
    rows = Workspace.objects.filter(product=product).select_related(scores)
    rows = rows.annotate(decided_for=last_decided_day())
    if quantiles_of == "both":
        return rows
    unneeded = {"user", "account"} - {quantiles_of}
    return rows.defer(*(f"scores__{scope}_quantiles" for scope in sorted(unneeded)))


def workspace(
    product: Product,
    workspace_id: int,
    quantiles_of: Quantiles = "none",
    *,
    with_counts: bool = False,
) -> Workspace:
    """The product's workspace. Raises NotFound for an unknown one and for another product's."""
    rows = workspaces(product, quantiles_of, with_counts=with_counts)
    workspace = _get_or_not_found(rows.filter(id=workspace_id))
    if workspace.scores is not None:
        # What alarms its accounts show is up to the workspace.
        workspace.scores.workspace = workspace
    return workspace


# The columns of a list. It does not load traits, because they may be large.
SUMMARY_COLUMNS = (
    *("raw", "raw_yesterday", "raw_last_period", "raw_yesterday_last_period"),
    "last_active_at",
)
ACCOUNT_SUMMARY_COLUMNS = (*SUMMARY_COLUMNS, "active_users", "activity")
USER_SUMMARY_COLUMNS = SUMMARY_COLUMNS
METRIC_COLUMNS = ("event_count", "active_days", "name_count", "settled_before")
ACCOUNT_METRIC_COLUMNS = (
    *METRIC_COLUMNS,
    "total_users",
    # An insight compares them.
    "top_user_points",
)
SUBJECT_COLUMNS = ("external_id", "traits", "first_seen_at", "last_seen_at", "created_at")
ACCOUNT_COLUMNS = (
    *ACCOUNT_SUMMARY_COLUMNS,
    *ACCOUNT_METRIC_COLUMNS,
    *(f"account__{column}" for column in SUBJECT_COLUMNS),
)
USER_COLUMNS = (
    *USER_SUMMARY_COLUMNS,
    *METRIC_COLUMNS,
    *(f"user__{column}" for column in SUBJECT_COLUMNS),
)


def ranked_accounts(workspace: Workspace) -> "QuerySet[RankedAccount, RankedAccount]":
    """The workspace's accounts, with the columns of a list.

    The names are columns of the row: creating a model for the account of each row as well takes a
    fifth of a page's processor time.

    A page reads one range of the index account_ranking and joins its accounts by ID. A second
    condition on the accounts' product would add nothing, and would tempt the planner to join by
    product alone while its statistics do not know a new product.
    """
    accounts = AccountEngagement.objects.filter(
        product_id=workspace.product_id, score_set=workspace.scores_id
    )
    return accounts.only(*ACCOUNT_SUMMARY_COLUMNS).annotate(
        tracking_id=F("account__external_id"), account_name=F("account__traits__name")
    )


def ranked_users(workspace: Workspace) -> "QuerySet[RankedUser, RankedUser]":
    """As ``ranked_accounts``, for users, with their current accounts."""
    users = UserEngagement.objects.filter(
        product_id=workspace.product_id, score_set=workspace.scores_id
    )
    # An account that only events of unidentified users have named is not shown.
    is_identified = Q(user__account__is_identified=True)
    return users.only(*USER_SUMMARY_COLUMNS).annotate(
        tracking_id=F("user__external_id"),
        user_name=F("user__traits__name"),
        user_email=F("user__traits__email"),
        current_account_id=Case(When(is_identified, F("user__account_id"))),
        current_account_tracking_id=F("user__account__external_id"),
        current_account_name=F("user__account__traits__name"),
    )


def account(workspace: Workspace, account_id: int) -> "RankedAccount":
    """One account of the workspace with its traits, or NotFound."""
    rows = ranked_accounts(workspace).select_related("account").only(*ACCOUNT_COLUMNS)
    return _get_or_not_found(rows.filter(account_id=account_id))


def user(workspace: Workspace, user_id: int) -> "RankedUser":
    """One user of the workspace with their traits, or NotFound. The ID of a user who was joined to
    another one finds that one."""
    rows = ranked_users(workspace).select_related("user").only(*USER_COLUMNS)
    rows = rows.annotate(seen_at=last_seen(workspace.product_id, "user__"))
    if row := rows.filter(user_id=user_id).first():
        return row
    joined = User.objects.filter(product_id=workspace.product_id, id=user_id)
    return _get_or_not_found(rows.filter(user_id__in=joined.values("joined_to_id")))


def find_account(workspace: Workspace, lookup: Lookup) -> "RankedAccount":
    """The account that *lookup* finds, with its traits, or NotFound."""
    rows = seen_last(ranked_accounts(workspace), workspace, "account", lookup)
    return _get_or_not_found(rows.select_related("account").only(*ACCOUNT_COLUMNS))


def matches(
    rows: QuerySet[Any], workspace: Workspace, scope: Scope, lookup: Lookup
) -> QuerySet[Any]:
    """All *rows*, the workspace's ranked rows of this scope, that *lookup* finds."""
    if scope == "account":
        accounts = Account.objects.filter(_matches(lookup, "domain"))
        return _among(rows, "account_id", accounts.filter(product_id=workspace.product_id))
    return _among(rows, "user_id", _matching_users(workspace, lookup))


def seen_last(
    rows: QuerySet[Any], workspace: Workspace, scope: Scope, lookup: Lookup
) -> QuerySet[Any]:
    """Of all *rows* that *lookup* finds, the one that was seen last."""
    if scope == "account":
        return rows.filter(account_id=_last_seen_account(workspace, lookup))
    return rows.filter(user_id=_last_seen_user(workspace, lookup))


def users_of(rows: QuerySet[Any], workspace: Workspace, account_id: int) -> QuerySet[Any]:
    """The users among *rows*, the workspace's ranked users, whose current account this is."""
    users = User.objects.filter(product_id=workspace.product_id, account_id=account_id)
    return _among(rows, "user_id", users)


def require_account(workspace: Workspace, account_id: int) -> None:
    """Raise NotFound if the workspace has no such account."""
    accounts = AccountEngagement.objects.filter(
        product_id=workspace.product_id, score_set=workspace.scores_id, account_id=account_id
    )
    if not accounts.exists():
        raise NotFound


def _among(rows: QuerySet[Any], id_column: str, subjects: QuerySet[Any]) -> QuerySet[Any]:
    return rows.filter(AnyOf(F(id_column), ArraySubquery(subjects.values("id"))))


def expand(
    rows: QuerySet[Any], scope: Scope, expansions: Sequence[str], trait_names: Sequence[str] | None
) -> QuerySet[Any]:
    """The ranked *rows* of the scope with the columns of these expansions.

    ``expanded_traits`` are all traits, or those in *trait_names*: only these leave the database.
    """
    traits = f"{get_kind(scope).path}traits"
    columns: tuple[str, ...]
    columns = ACCOUNT_SUMMARY_COLUMNS if scope == "account" else USER_SUMMARY_COLUMNS
    if "metrics" in expansions:
        columns += ACCOUNT_METRIC_COLUMNS if scope == "account" else METRIC_COLUMNS
        if scope == "account":
            rows = rows.annotate(seats=_Trait(traits, SEATS_TRAIT))
    if "traits" in expansions and trait_names is None:
        rows = rows.annotate(expanded_traits=F(traits))
    elif "traits" in expansions:
        values = {name: _Trait(traits, name) for name in trait_names or ()}
        rows = rows.annotate(expanded_traits=JSONObject(**values))
    return rows.only(*columns) if expansions else rows


class _Trait(Func):
    """A trait. A function, because Django's key lookups treat a name like ``5`` as an index."""

    function = "jsonb_object_field"
    output_field: Any = JSONField()

    def __init__(self, traits: str, name: str) -> None:
        super().__init__(F(traits), Value(canonical_name(name)))


def segments(
    workspace: Workspace, scope: Scope | None = None, custom_only: bool = False
) -> QuerySet[Segment]:
    """The workspace's segments, of one scope or of both."""
    rows = Segment.objects.filter(workspace=workspace).order_by("id")
    if scope is not None:
        rows = rows.filter(scope=scope)
    return rows.filter(is_default=False) if custom_only else rows


def segment(workspace: Workspace, segment_id: int) -> Segment:
    """The workspace's segment with this ID, or NotFound."""
    return _get_or_not_found(segments(workspace).filter(id=segment_id))


def members(rows: QuerySet[Any], workspace: Workspace, segment: Segment) -> QuerySet[Any]:
    """The segment's members among *rows*, the workspace's ranked rows of the segment's scope."""
    if workspace.scores is None:
        return rows
    return rows.filter(members_filter(workspace.scores, segment_rule(segment)))


def _get_or_not_found(rows: QuerySet[Row, Row]) -> Row:
    """The only row. Unlike ``first``, this does not order one row, which takes time to compile."""
    for row in rows[:1]:
        return row
    raise NotFound


def _last_seen_account(workspace: Workspace, lookup: Lookup) -> Subquery:
    # A message that names an account counts as seeing it, and so does an event in it, because
    # few events name their account. A license sync names all accounts.
    seen_at = Greatest("last_seen_at", "engagements__last_active_at").desc()
    accounts = Account.objects.filter(
        _matches(lookup, "domain"),
        product_id=workspace.product_id,
        engagements__product_id=workspace.product_id,
        engagements__score_set=workspace.scores_id,
    )
    return Subquery(accounts.order_by(seen_at, "-id").values("id")[:1])


def _last_seen_user(workspace: Workspace, lookup: Lookup) -> Subquery:
    users = _matching_users(workspace, lookup)
    ranked = UserEngagement.objects.filter(
        product_id=workspace.product_id, score_set=workspace.scores_id, user_id=OuterRef("id")
    )
    users = users.filter(Exists(ranked)).order_by(last_seen(workspace.product_id).desc(), "-id")
    return Subquery(users.values("id")[:1])


def _matching_users(workspace: Workspace, lookup: Lookup) -> QuerySet[User]:
    users = User.objects.filter(product_id=workspace.product_id)
    if lookup.kind != "tracking_id":
        return users.filter(_matches(lookup, "email"))
    matches = users.filter(external_id=lookup.value)
    return users.filter(id__in=matches.values(id_of_person=Coalesce("joined_to_id", "id")))


def _matches(lookup: Lookup, case_insensitive: str) -> Q:
    """The condition of the look-up. *case_insensitive* is the trait that ignores case."""
    if lookup.kind == "tracking_id":
        return Q(external_id=lookup.value)
    if lookup.kind == case_insensitive:
        return _same_text(lookup.kind, lookup.value)
    return trait_equals("traits", lookup.kind, lookup.value)


def _same_text(name: str, value: str) -> Q:
    """The trait equals *value*, ignoring case.

    The first comparison is the expression of the indexes user_email and account_domain, letter for
    letter. The second decides for longer texts.
    """
    trait = KeyTextTransform(name, "traits")
    indexed = Lower(Left(trait, INDEXED_TEXT_LENGTH))
    return Q(
        Exact(indexed, Lower(Left(Value(value), INDEXED_TEXT_LENGTH))),
        Exact(Lower(trait), Lower(Value(value))),
    )
