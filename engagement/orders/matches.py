"""Who matches a condition or a segment, for stored orders.

PostgreSQL walks a ranking from the top until a page is full. That is long if few accounts match, or
if those that do are at its end, and daily counts have no index by event. So of a large set the
background stores the accounts that use a feature, stopped, or never used it, in the order of their
scores. It reads what nights have counted (``AccountUse``), and daily counts only of the days since,
and of accounts with late ones. It also stores the members of a segment for whose list somebody had
to wait.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final, Literal, LiteralString

from core.database import sql
from engagement.models import Feature, LateUse, ScoreSet, Segment, UsageState
from engagement.models.features import MAX_FEATURES, USED_WITHIN
from engagement.orders.columns import sorted_rows
from engagement.rules.filters import find_event_name_ids
from engagement.rules.rules import FeatureCondition, Rule
from engagement.scopes import ACCOUNTS, SubjectKind, get_kind
from engagement.scores.account_uses import COUNTED
from engagement.segments.members import members_filter, segment_rule, usable_segments

FEATURE_PREFIX, SEGMENT_PREFIX = "feature:", "segment:"
OPERATORS: Final[tuple[Literal["uses", "stopped", "never"], ...]] = ("uses", "stopped", "never")
# Of a set: all features, and some other numbers of days that segments ask for.
MAX_FEATURE_ORDERS = len(OPERATORS) * MAX_FEATURES + 20
MAX_SEGMENT_ORDERS = 20


def standard_columns(score_set: ScoreSet) -> list[str]:
    """The names of the orders by the features of a set that counts all users. Uses are those of all
    users, so of an audience each order takes long, and waits until somebody asks for it."""
    if score_set.audience:
        return []
    ids = Feature.objects.filter(product=score_set.product_id).values_list("pk", flat=True)
    return [_column(pk, operator, USED_WITHIN) for pk in ids for operator in OPERATORS]


def _column(feature_id: int, operator: str, days: int) -> str:
    return f"{FEATURE_PREFIX}{feature_id}:{operator}:{days}"


def columns_of(rule: Rule, product_id: int) -> list[str]:
    """The names of orders of which each has all accounts that match the rule."""
    if rule.scope != "account" or (rule.match != "all" and len(rule.conditions) > 1):
        return []
    own = [each for each in rule.conditions if isinstance(each, FeatureCondition)]
    features = Feature.objects.filter(product=product_id, name__in={each.feature for each in own})
    ids = dict(features.values_list("name", "pk")) if own else {}
    return [
        _column(ids[each.feature], each.operator, each.within_days)
        for each in own
        if each.feature in ids
    ]


def column_of(rule: Rule, product_id: int, segment: Segment | None = None) -> str:
    """The name of the order of all who match the rule, which is that of the *segment*, if there is
    one; empty if no order has them."""
    columns = columns_of(rule, product_id)
    if len(rule.conditions) == len(columns) == 1:
        return columns[0]
    return segment_column(segment) if segment else ""


def segment_column(segment: Segment) -> str:
    """The name of the order of the segment's members, by its present rule."""
    return f"{SEGMENT_PREFIX}{segment.pk}:{segment.updated_at.isoformat()}"


# --- Computing ------------------------------------------------------------------------------

_SINCE: LiteralString = f"""
    SELECT d.account_id FROM {COUNTED}
    WHERE d.product_id = %(product)s AND d.event_name_id = ANY(%(events)b::bigint[])
      AND d.day >= %(until)s
"""
_OWN: LiteralString = """
    SELECT account_id FROM engagement_accountuse
    WHERE product_id = %(product)s AND event_name_id = ANY(%(events)b::bigint[])
"""
_EVER: LiteralString = f"({_OWN} UNION ALL {_SINCE})"
_RECENTLY: LiteralString = f"""
    ({_OWN} AND last_day >= %(first)s
     UNION ALL {_SINCE} AND d.day >= %(first)s AND d.day <= %(today)s)
"""
_USES: LiteralString = f"EXISTS (SELECT FROM {_RECENTLY} k WHERE k.account_id = e.account_id)"
_HAS_USED: LiteralString = f"EXISTS (SELECT FROM {_EVER} k WHERE k.account_id = e.account_id)"
_MATCHES: dict[str, LiteralString] = {
    "uses": _USES,
    "stopped": f"{_HAS_USED} AND NOT {_USES}",
    "never": f"NOT {_HAS_USED}",
}
_ROWS: LiteralString = """
    SELECT e.account_id, e.raw FROM engagement_accountengagement e
    WHERE e.product_id = %(product)s AND e.score_set_id = %(score_set)s
"""
_SORTED: LiteralString = """
    SELECT m.account_id FROM (
        {rows} AND {matches} AND NOT EXISTS (
            SELECT FROM engagement_lateuse l
            WHERE l.product_id = %(product)s AND l.account_id = e.account_id)
        UNION ALL {rows} AND e.account_id = ANY(%(late)b::bigint[])) m
    ORDER BY m.raw, m.account_id
"""


def matching_ids(score_set: ScoreSet, kind: SubjectKind, column: str) -> Iterator[int]:
    """Who is in the order, in ascending order of their scores; inside a transaction."""
    if score_set.scored_day is None:
        return iter(())
    if column.startswith(SEGMENT_PREFIX):
        segments = usable_segments(score_set.workspace, kind.scope)
        rules = [segment_rule(each) for each in segments if segment_column(each) == column]
        return _sorted_members(score_set, rules[0]) if rules else iter(())
    condition = _condition(score_set.product_id, column)
    return _matches(score_set, condition) if condition else iter(())


def _sorted_members(score_set: ScoreSet, rule: Rule) -> Iterator[int]:
    kind = get_kind(rule.scope)
    ranked = sorted_rows(score_set, kind, "score", descending=False)
    members = ranked.filter(members_filter(score_set, rule))
    query = members.values_list(kind.id_column).query
    return (id for (id,) in sql.stream(*query.sql_with_params(), at_once=20_000))


def _matches(score_set: ScoreSet, condition: FeatureCondition) -> Iterator[int]:
    assert score_set.scored_day is not None
    rule = Rule("account", "all", (condition,))
    state = UsageState.objects.filter(pk=score_set.product_id).first()
    if score_set.audience or state is None or state.uses_until is None:
        return _sorted_members(score_set, rule)
    exact = ACCOUNTS.engagement_rows(score_set).filter(members_filter(score_set, rule))
    late = LateUse.objects.filter(product=score_set.product_id).values("account_id")
    event_ids = find_event_name_ids([condition], score_set.product_id)[condition]
    parameters = {
        "product": score_set.product_id,
        "score_set": score_set.pk,
        "events": sorted(event_ids),
        "first": score_set.scored_day - timedelta(days=condition.within_days - 1),
        "today": score_set.scored_day,
        "until": state.uses_until,
        "late": list(exact.filter(account_id__in=late).values_list("account_id", flat=True)),
    }
    statement = _SORTED.format(rows=_ROWS, matches=_MATCHES[condition.operator])
    return (id for (id,) in sql.stream(statement, parameters, at_once=20_000))


def _condition(product_id: int, column: str) -> FeatureCondition | None:
    """What the accounts of the order match; None if the feature is gone."""
    feature_id, operator, days = column.removeprefix(FEATURE_PREFIX).split(":")
    feature = Feature.objects.filter(product=product_id, pk=int(feature_id)).first()
    if feature is None:
        return None
    (own,) = (each for each in OPERATORS if each == operator)
    return FeatureCondition(feature=feature.name, operator=own, within_days=int(days))
