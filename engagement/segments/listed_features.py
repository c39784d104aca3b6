"""Finds the accounts of a list by the use of a feature before they are ranked.

PostgreSQL walks a ranking from the top until a page is full. That is long if few accounts use the
feature, or if those that do not are at its end. So the uses of accounts say which may match: some
more than do, but none less, once scoring has noted late ones. The condition itself, which reads
daily counts, decides.
"""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import LiteralString

from django.contrib.postgres.fields import ArrayField
from django.db.models import BigIntegerField, F, Max, Q
from django.db.models.expressions import RawSQL

from core.database import sql
from engagement.activity.reading import AnyOf
from engagement.models import Account, Feature, NeverUsed, ScoreSet, UsageState
from engagement.rules.filters import find_event_name_ids
from engagement.rules.rules import FeatureCondition, Rule

# Of as many accounts, all are looked at. If there are more, the ranking has one soon.
FEW = 10_000
DAY = timedelta(days=1)

_OWN: LiteralString = "product_id = %(product)s AND event_name_id = ANY(%(events)b::bigint[])"
_USED_SINCE: LiteralString = f"""
    SELECT account_id FROM engagement_accountuse WHERE {_OWN} AND last_day >= %(first)s
"""
_USED_BEFORE: LiteralString = f"""
    SELECT account_id FROM engagement_accountuse WHERE {_OWN} AND last_day < %(first)s
"""
# Days that no night has added yet.
_USED_AFTER: LiteralString = f"""
    SELECT account_id FROM engagement_dailycount WHERE {_OWN} AND day >= %(until)s
"""
_LATE: LiteralString = "SELECT account_id FROM engagement_lateuse WHERE product_id = %(product)s"
_NEVER: LiteralString = """
    SELECT unnest(account_ids) FROM engagement_neverused
    WHERE product_id = %(product)s AND feature_id = %(feature)s
"""
_NEW: LiteralString = """
    SELECT a.id FROM engagement_account a
    WHERE a.product_id = %(product)s AND a.id > %(last)s
"""


def candidates_filter(rule: Rule, score_set: ScoreSet) -> Q:
    """For a list, besides the filter of the *rule*: keeps the accounts that may match it, if they
    are few."""
    matches = Q()
    if rule.scope != "account" or (rule.match != "all" and len(rule.conditions) > 1):
        return matches
    own = [each for each in rule.conditions if isinstance(each, FeatureCondition)]
    if not own:
        return matches
    state = UsageState.objects.filter(pk=score_set.product_id).first()
    event_ids = find_event_name_ids(own, score_set.product_id)
    for condition in own:
        ids = _candidates(condition, event_ids[condition], score_set, state)
        if ids is not None:
            # The planner does not see how many there are. It would walk the ranking again.
            array = RawSQL("(SELECT %s::bigint[])::bigint[]", (ids,), ArrayField(BigIntegerField()))
            matches &= Q(AnyOf(F("account_id"), array))
    return matches


def _candidates(
    condition: FeatureCondition,
    event_ids: Sequence[int],
    score_set: ScoreSet,
    state: UsageState | None,
) -> list[int] | None:
    """The accounts that may match; None if nobody knows, or if they are not few."""
    today = score_set.scored_day
    if not event_ids or today is None or state is None or state.uses_until is None:
        return None
    first = today - (condition.within_days - 1) * DAY
    parameters = {
        "product": score_set.product_id,
        "events": sorted(event_ids),
        "first": first,
        "until": state.uses_until,
    }
    if condition.operator == "uses":
        return _few((_USED_SINCE, _LATE, _USED_AFTER), parameters)
    if score_set.audience:
        # Uses are those of all users.
        return None
    if condition.operator == "stopped":
        is_complete = state.uses_until >= first
        return _few((_USED_BEFORE, _LATE), parameters) if is_complete else None
    features = Feature.objects.filter(product=score_set.product_id, name=condition.feature)
    rows = NeverUsed.objects.filter(product=score_set.product_id, feature__in=features)
    never = rows.exclude(account_ids=None).values("feature_id", "last_account_id").first()
    if never is None:
        return None
    parameters |= {"feature": never["feature_id"], "last": never["last_account_id"]}
    return _few((_NEVER, _NEW, _LATE), parameters)


def _few(statements: Sequence[LiteralString], parameters: dict[str, object]) -> list[int] | None:
    """What all of them find; None if one finds many."""
    ids = set[int]()
    for statement in statements:
        rows = sql.fetch(f"{statement} LIMIT %(limit)s", {**parameters, "limit": FEW + 1})
        ids.update(id for (id,) in rows)
        if len(rows) > FEW:
            return None
    return sorted(ids)


# --- Nights ---------------------------------------------------------------------------------

_FIND: LiteralString = """
    INSERT INTO engagement_neverused (product_id, feature_id, day, account_ids, last_account_id)
    SELECT %(product)s::bigint, %(feature)s::bigint, %(day)s::date,
           CASE WHEN count(*) <= %(few)s THEN COALESCE(array_agg(k.id), '{}') END, %(last)s
    FROM (
        SELECT a.id FROM engagement_account a
        WHERE a.product_id = %(product)s AND a.id <= %(last)s AND NOT EXISTS (
            SELECT FROM engagement_accountuse s
            WHERE s.product_id = %(product)s AND s.account_id = a.id
              AND s.event_name_id = ANY(%(events)b::bigint[]))
        LIMIT %(few)s + 1) k
    ON CONFLICT (product_id, feature_id) DO UPDATE
    SET day = EXCLUDED.day, account_ids = EXCLUDED.account_ids,
        last_account_id = EXCLUDED.last_account_id
"""


def find_never_used(product_id: int, day: date) -> bool:
    """Find the accounts that never used a feature before *day*, of one feature. Returns whether
    there was one left."""
    complete = NeverUsed.objects.filter(product=product_id, day=day).values("feature_id")
    feature = Feature.objects.filter(product=product_id).exclude(pk__in=complete).first()
    if feature is None:
        return False
    last: int = Account.objects.filter(product=product_id).aggregate(last=Max("pk"))["last"] or 0
    events = list(feature.events.filter(product=product_id).values_list("pk", flat=True))
    parameters = {"product": product_id, "feature": feature.pk, "day": day, "events": events}
    sql.execute(_FIND, {**parameters, "few": FEW, "last": last})
    return True


def forget_never_used(feature: Feature) -> None:
    """Delete what was found of the feature: its events have changed, or it goes."""
    NeverUsed.objects.filter(product=feature.product_id, feature=feature).delete()
