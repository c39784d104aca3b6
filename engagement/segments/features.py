"""Which features users and accounts use, stopped using, and never used."""

from collections.abc import Collection
from datetime import date, timedelta
from typing import Final, Literal, LiteralString, NamedTuple, TypeAlias

from django.db.models import Count, IntegerField, OuterRef, Subquery, Value
from django.db.models.functions import Coalesce

from core.database import sql
from engagement.models import AccountUse, Feature, ScoreSet
from engagement.models.features import USED_WITHIN
from engagement.scopes import ACCOUNTS, SubjectKind

FeatureState: TypeAlias = Literal["used", "stopped", "never"]
STATES: Final[tuple[FeatureState, ...]] = ("used", "stopped", "never")
DAY = timedelta(days=1)

# A night adds complete days to the uses of accounts. Until it has, yesterday is read, too: of each
# event, one identified user is enough.
_OF_ACCOUNTS: LiteralString = """
    SELECT account_id AS subject_id, event_name_id, last_day AS day FROM engagement_accountuse
    WHERE product_id = %(product)s AND account_id = ANY(%(subjects)b::bigint[])
    UNION ALL
    SELECT late.* FROM (
        SELECT DISTINCT account_id, event_name_id, day FROM engagement_dailycount
        WHERE product_id = %(product)s AND account_id = ANY(%(subjects)b::bigint[])
          AND day >= %(today)s::date - 1) late
    CROSS JOIN LATERAL (SELECT FROM engagement_dailycount d
        JOIN engagement_user u ON u.product_id = %(product)s AND u.id = d.user_id
        WHERE d.product_id = %(product)s AND d.account_id = late.account_id AND d.day = late.day
          AND d.event_name_id = late.event_name_id AND u.is_identified LIMIT 1) one
"""
_OF_USERS: LiteralString = """
    SELECT user_id AS subject_id, event_name_id, day FROM engagement_dailycount
    WHERE product_id = %(product)s AND user_id = ANY(%(subjects)b::bigint[])
"""
_LAST_USED: LiteralString = """
    SELECT s.subject_id, n.feature_id, max(s.day)
    FROM ({uses}) s
    JOIN engagement_eventname n
        ON n.product_id = %(product)s AND n.id = s.event_name_id AND n.feature_id IS NOT NULL
    WHERE s.day <= %(today)s
    GROUP BY s.subject_id, n.feature_id
"""


class FeatureUse(NamedTuple):
    """A feature of the product, and the last day on which a subject used it."""

    feature: Feature
    last_used_on: date | None
    state: FeatureState


def feature_uses(
    product_id: int, kind: SubjectKind, subject_ids: Collection[int], today: date
) -> dict[int, list[FeatureUse]]:
    """All features of the product for each subject: used ones first, the last used first."""
    features = list(Feature.objects.filter(product=product_id))
    if not features:
        return {id: [] for id in subject_ids}
    statement = _LAST_USED.format(uses=_OF_ACCOUNTS if kind is ACCOUNTS else _OF_USERS)
    parameters = {"product": product_id, "subjects": sorted(subject_ids), "today": today}
    days = {(subject, id): day for subject, id, day in sql.fetch(statement, parameters)}
    return {
        subject: sorted(
            (_use(feature, days.get((subject, feature.pk)), today) for feature in features),
            key=lambda use: -(use.last_used_on or date.min).toordinal(),
        )
        for subject in subject_ids
    }


def _use(feature: Feature, day: date | None, today: date) -> FeatureUse:
    if day is None:
        return FeatureUse(feature, None, "never")
    return FeatureUse(feature, day, "used" if (today - day).days < USED_WITHIN else "stopped")


def features_in_use(score_set: ScoreSet) -> Coalesce:
    """The number of features that the account of an engagement row used in the 28 days of the last
    night."""
    today = score_set.scored_day or date.min
    uses = AccountUse.objects.filter(
        product=score_set.product_id,
        account_id=OuterRef("account_id"),
        last_day__gte=today - min(USED_WITHIN * DAY, today - date.min),
        event_name__feature__isnull=False,
    )
    numbers = uses.order_by().values("product_id")
    numbers = numbers.annotate(number=Count("event_name__feature_id", distinct=True))
    return Coalesce(Subquery(numbers.values("number")), Value(0), output_field=IntegerField())
