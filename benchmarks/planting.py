"""Plants in a product what trends, features, and timelines tell of: terms that end soon, alarms, a
year of figures, moves between segments, a feature that few accounts use, and segments by feature.
"""

from typing import Any, LiteralString

from harness.service import Service

_IS_PLANTED: LiteralString = """
    SELECT count(*) FROM engagement_feature WHERE product_id = %(product)s AND name = 'Archive'
"""
RARE, COMMON = "Archive", "Boards"
# What cohorts are asked about.
EVENT, TRAITS = "Board_Viewed", {"account": "plan", "user": "role"}
# Names of segments.
USES_RARE, NEVER_COMMON = "Uses the archive", "Never opened a board"
_PLANT: tuple[LiteralString, ...] = (
    # A twelfth of the accounts has a term that ends within 30 days: so many renew within a year.
    """
    INSERT INTO outcomes_licenseoutcome (product_id, license, kind, day, cloud_id, began_on, result,
        exclusion, seats)
    SELECT %(product)s, 'L' || id, CASE WHEN id %% 24 = 5 THEN 'renewal' ELSE 'evaluation' END,
           current_date + id::int %% 30, external_id, current_date - 300, 'open', 'open',
           1 + id %% 90
    FROM engagement_account WHERE product_id = %(product)s AND id %% 12 = 5
    """,
    """
    INSERT INTO engagement_alarm (product_id, workspace_id, account_id, signal, level, since,
        ended_on, outcome, is_stopped, is_replayed, window_days, observed, expected, dispersion, p,
        latest, details, weekly_rate, burstiness, baseline_from, baseline_to)
    SELECT %(product)s, w.id, a.id, CASE WHEN a.id %% 4 = 0 THEN 'rise' ELSE 'fall' END,
           w.alarm_level, current_date - 1 - age, CASE WHEN age > 20 THEN current_date - 3 END,
           CASE WHEN age > 20 THEN 'recovered' ELSE '' END, false, false, 14, 3, 12.5, 1.5, 0.0001,
           '{}', '{}', 7, 1, current_date - 150, current_date - 30
    FROM engagement_account a
    JOIN engagement_workspace w ON w.product_id = a.product_id
    CROSS JOIN LATERAL (SELECT (a.id / 150 %% 28)::int AS age) AS k
    WHERE a.product_id = %(product)s AND a.id %% 150 = 7
    ON CONFLICT DO NOTHING
    """,
    """
    INSERT INTO engagement_alarmnight (workspace_id, day, user_days, is_replayed, decided_at)
    SELECT id, (now() AT TIME ZONE 'UTC')::date - 1, 1, false, now() FROM engagement_workspace
    WHERE product_id = %(product)s
    ON CONFLICT (workspace_id, day) DO UPDATE SET decided_at = now()
    """,
    # A year, and the year before it; of segments, a quarter.
    """
    INSERT INTO trends_dayfigures (workspace_id, segment_id, day, score_set_id, accounts,
        weekly_accounts, weekly_users, account_mean, account_median, account_bands, user_bands,
        stopped_accounts, returned_accounts, new_accounts, entered, "left")
    SELECT w.id, k.segment, (now() AT TIME ZONE 'UTC')::date - 1 - ago::int, w.scores_id, 1000000,
           500000 + ago, 900000 - ago, 40 + ago %% 7, 35.5, array_fill(100000, ARRAY[10]),
           array_fill(300000, ARRAY[10]), ago, ago, ago,
           CASE WHEN k.segment > 0 THEN ago END, CASE WHEN k.segment > 0 THEN 2 * ago END
    FROM engagement_workspace w
    CROSS JOIN (SELECT 0 AS segment UNION ALL SELECT id FROM engagement_segment) AS k
    CROSS JOIN generate_series(1, 740) AS ago
    WHERE w.product_id = %(product)s AND (k.segment = 0 OR ago <= 90)
    ON CONFLICT DO NOTHING
    """,
    # As many as are kept of a night, for a week.
    """
    INSERT INTO trends_segmentmove (product_id, scope, subject_id, segment_id, day, is_entry)
    SELECT %(product)s, 'account', a.id, s.id,
           (now() AT TIME ZONE 'UTC')::date - 1 - (row_number() OVER ())::int %% 7, true
    FROM (SELECT id FROM engagement_account WHERE product_id = %(product)s
          ORDER BY id LIMIT 7000) AS a
    JOIN engagement_segment s ON s.scope = 'account' AND s.name = 'New'
    JOIN engagement_workspace w ON w.id = s.workspace_id AND w.product_id = %(product)s
    """,
    """
    INSERT INTO engagement_feature (product_id, name) VALUES (%(product)s, 'Archive')
    """,
    """
    INSERT INTO engagement_eventname (product_id, name, feature_id)
    SELECT product_id, 'Archive_Restored', id FROM engagement_feature
    WHERE product_id = %(product)s AND name = 'Archive'
    """,
    # One in 20,000 users, some of whom have stopped.
    """
    INSERT INTO engagement_dailycount (product_id, user_id, account_id, event_name_id, day, count,
                                       last_at)
    SELECT %(product)s, u.id, u.account_id, e.id, d.day, 1, d.day + interval '9 hours'
    FROM engagement_user u
    JOIN engagement_eventname e ON e.product_id = %(product)s AND e.name = 'Archive_Restored'
    CROSS JOIN LATERAL (
        SELECT current_date - 3 - (u.id / 20000 %% 2)::int * 40 AS day) AS d
    WHERE u.product_id = %(product)s AND u.id %% 20000 = 7 AND u.account_id IS NOT NULL
    """,
    """
    INSERT INTO engagement_segment (workspace_id, scope, name, match, conditions, is_default,
                                    position, updated_at)
    SELECT w.id, 'account', k.name, 'all', k.conditions::jsonb, false, 1000, now()
    FROM engagement_workspace w
    CROSS JOIN (VALUES
        ('Uses the archive',
         '[{"kind": "feature", "feature": "Archive", "operator": "uses", "within_days": 28}]'),
        ('Never opened a board',
         '[{"kind": "feature", "feature": "Boards", "operator": "never"}]')) AS k(name, conditions)
    WHERE w.product_id = %(product)s
    """,
    # As scoring notes late accounts.
    """
    INSERT INTO engagement_lateuse (product_id, account_id, day)
    SELECT %(product)s, account_id, current_date - 60 FROM engagement_user
    WHERE product_id = %(product)s AND id %% 20000 = 7 AND account_id IS NOT NULL
    ON CONFLICT DO NOTHING
    """,
    # Rows of the last days lie behind all others, where a service writes them.
    """
    WITH moved AS (
        DELETE FROM engagement_dailycount
        WHERE product_id = %(product)s AND day >= current_date - 1 RETURNING *)
    INSERT INTO engagement_dailycount SELECT * FROM moved
    """,
    "VACUUM engagement_dailycount",
    # Who stays by an event, and by a trait, besides those that each workspace has.
    """
    INSERT INTO trends_storedcohorts (workspace_id, scope, event_name_id, trait, wanted_at)
    SELECT w.id, k.scope, COALESCE(e.id, 0), k.trait, now()
    FROM engagement_workspace w
    CROSS JOIN (VALUES ('account', 'Board_Viewed', ''), ('user', 'Board_Viewed', ''),
                       ('account', '', 'plan'), ('user', '', 'role')) AS k(scope, event, trait)
    LEFT JOIN engagement_eventname e ON e.product_id = %(product)s AND e.name = k.event
    WHERE w.product_id = %(product)s
    ON CONFLICT DO NOTHING
    """,
    """
    ANALYZE outcomes_licenseoutcome, engagement_alarm, trends_dayfigures, trends_segmentmove,
        engagement_eventname
    """,
)


def plant(service: Service, product: dict[str, Any]) -> None:
    """Once, because the service may be kept."""
    database = service.connect()
    own = {"product": product["product_id"]}
    row = database.execute(_IS_PLANTED, own).fetchone()
    if row == (0,):
        for statement in _PLANT:
            database.execute(statement, own if "%" in statement else None)
