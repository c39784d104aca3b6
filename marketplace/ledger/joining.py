"""Makes one license of several that turn out to be the same: an id that arrives later names both.

What happened to both is known of one license then. Events with the same type and anchor become one,
and the job decides which of the others still follow.
"""

from collections.abc import Collection, Iterable
from datetime import date, datetime, timedelta
from typing import Any, Final, LiteralString

import msgspec

from core.database import sql
from marketplace.ledger.accounts import note_changed_events
from marketplace.models import LedgerLicense, LicenseAlias, LicenseEvent, Observation
from outcomes.forecasts import storage as forecasts
from outcomes.models import LicenseOutcome

# Longer than notifications look back for what is new.
_TOLD: Final = timedelta(days=7)

# Locked first, so that the job computes the events of neither meanwhile.
_LOCK: LiteralString = """
    SELECT l.license, l.listings::text,
           (SELECT min(o.first_seen) FROM marketplace_observation o
            WHERE o.product_id = %(product)s AND o.license = l.license)::date AS first_seen
    FROM marketplace_ledgerlicense l
    WHERE l.product_id = %(product)s AND l.license = ANY(%(licenses)b::text[])
    ORDER BY l.license
    FOR UPDATE OF l
"""
_MOVE_STATES: LiteralString = """
    INSERT INTO marketplace_observation AS o (product_id, license, as_of, digest, fields,
        first_seen, last_seen, source)
    SELECT product_id, %(kept)s, as_of, digest, fields, first_seen, last_seen, source
    FROM marketplace_observation WHERE product_id = %(product)s AND license = %(other)s
    ON CONFLICT (product_id, license, as_of, digest) DO UPDATE
    SET first_seen = LEAST(o.first_seen, excluded.first_seen),
        last_seen = GREATEST(o.last_seen, excluded.last_seen),
        source = CASE WHEN excluded.source = 'history' THEN excluded.source ELSE o.source END
"""
# What was announced under the other name is not told again, but its withdrawal may be.
_COPY_EVENTS: LiteralString = """
    INSERT INTO marketplace_licenseevent AS e (product_id, license, type, anchor, date, known_on,
        cloud_id, details, sources, recorded_at, changed_at, withdrawn_at, is_announced)
    SELECT product_id, %(kept)s, type, anchor, date, known_on, cloud_id, details, sources,
           CASE WHEN is_announced THEN LEAST(recorded_at, %(told)s) ELSE recorded_at END, %(now)s,
           CASE WHEN withdrawn_at IS NOT NULL THEN LEAST(withdrawn_at, %(told)s) END, is_announced
    FROM marketplace_licenseevent WHERE product_id = %(product)s AND license = %(other)s
    ON CONFLICT (product_id, license, type, anchor) DO UPDATE
    SET is_announced = e.is_announced OR excluded.is_announced,
        recorded_at = LEAST(e.recorded_at, excluded.recorded_at)
"""
# They stay for readers who have them.
_WITHDRAW_EVENTS: LiteralString = """
    UPDATE marketplace_licenseevent
    SET withdrawn_at = coalesce(withdrawn_at, %(now)s), changed_at = %(now)s, is_announced = false
    WHERE product_id = %(product)s AND license = %(other)s
"""
_JOIN: LiteralString = """
    UPDATE marketplace_ledgerlicense k
    SET facts = k.facts || o.facts, listings = %(listings)s::jsonb, stale = 2,
        links = ARRAY(SELECT DISTINCT unnest(k.links || o.links) ORDER BY 1),
        is_new = k.is_new AND o.is_new, has_history = k.has_history AND o.has_history,
        seen_at = GREATEST(k.seen_at, o.seen_at), as_of = GREATEST(k.as_of, o.as_of),
        digest = CASE WHEN o.as_of > k.as_of THEN o.digest ELSE k.digest END
    FROM marketplace_ledgerlicense o
    WHERE k.product_id = %(product)s AND k.license = %(kept)s
      AND o.product_id = %(product)s AND o.license = %(other)s
"""
Listings = Iterable[tuple[date, bool]]


def join(product_id: int, licenses: Collection[str], now: datetime) -> str:
    """Make one license of several, of which the observations say when they were last seen; return
    its name, that of the one which was met first. Writes only."""
    own_name: str
    rows = sql.fetch(_LOCK, {"product": product_id, "licenses": sorted(licenses)})
    (own_name, _, _), *others = sorted(rows, key=lambda row: (row[2] or date.max, row[0]))
    listings = join_listings(
        [
            (first or date.min, True),
            *((date.fromisoformat(day), is_in) for day, is_in in msgspec.json.decode(own)),
        ]
        for _, own, first in rows
    )
    encoded = msgspec.json.encode(listings).decode()
    parameters: dict[str, Any] = {"product": product_id, "kept": own_name, "listings": encoded}
    parameters |= {"now": now, "told": now - _TOLD}
    for other, *_ in others:
        for statement in (_MOVE_STATES, _COPY_EVENTS, _WITHDRAW_EVENTS, _JOIN):
            sql.execute(statement, {**parameters, "other": other})
    names = [other for other, *_ in others]
    events = LicenseEvent.objects.filter(product=product_id, license__in=names)
    note_changed_events(product_id, events.values_list("cloud_id", flat=True))
    LicenseAlias.objects.filter(product=product_id, license__in=names).update(license=own_name)
    for model in (Observation, LicenseOutcome, LedgerLicense):
        model._default_manager.filter(product=product_id, license__in=names).delete()
    forecasts.rename_licenses(product_id, names, own_name)
    return own_name


def join_listings(each: Iterable[Listings]) -> list[tuple[date, bool]]:
    """The days on which the reports had none of the licenses any more, or one again."""
    changes = sorted((day, place, is_in) for place, own in enumerate(each) for day, is_in in own)
    listed: set[int] = set()
    joined: list[tuple[date, bool]] = []
    for place, (day, license, is_in) in enumerate(changes):
        (listed.add if is_in else listed.discard)(license)
        is_last_of_day = place + 1 == len(changes) or changes[place + 1][0] != day
        if is_last_of_day and (not joined or joined[-1][1] != bool(listed)):
            joined.append((day, bool(listed)))
    # On the first day, they began.
    return joined[1:]
