-- Computes the engagement rows of users from their daily counts.
--
-- The planner must know the product: core.database.product_statistics says why. What is in braces
-- depends on how the set counts (raw.py). "o" is the stored row, if its oldest sum still holds.
INSERT INTO engagement_userengagement AS e (
    product_id, score_set_id, user_id, raw, raw_yesterday, raw_last_period,
    raw_yesterday_last_period, event_count, active_days, name_count, last_active_at, settled_before)
SELECT
    %(product)s::bigint, %(score_set)s, u.id,
    {least}COALESCE(n.raw, 0){until_now}, {least}COALESCE(n.raw_yesterday, 0){until_yesterday},
    {least}COALESCE(n.raw_last_period, 0){until_last_period},
    {least}COALESCE(n.raw_yesterday_last_period, 0){settled},
    COALESCE(n.event_count, 0), COALESCE(n.active_days, 0), COALESCE(n.name_count, 0),
    COALESCE(n.last_at, earlier.last_at), {settled_before}
FROM engagement_user u
{join_settled}
LEFT JOIN LATERAL (
    SELECT
        sum(now * weight) AS raw,
        sum(yesterday * weight) AS raw_yesterday,
        sum(last_period * weight) AS raw_last_period,
        sum(yesterday_last_period * weight) AS raw_yesterday_last_period,
        sum(recent) AS event_count,
        bit_count(bit_or(days)::bit(32)) AS active_days,
        count(*) FILTER (WHERE recent > 0) AS name_count,
        max(last_at) AS last_at
    FROM (
        SELECT by_name.*, COALESCE(w.weight, %(default_weight)s) AS weight
        FROM (
            -- One row per event name first, so that weights are looked up once per name and not
            -- once per count. The days of a window are bits, because counting distinct days would
            -- sort all counts. Clocks may be a few minutes ahead: around midnight a count can be
            -- dated tomorrow. It is in no window yet, but may be the last event.
            SELECT
                d.event_name_id,
                sum(d.count) FILTER (WHERE d.day BETWEEN %(first_day)s AND %(today)s) AS recent,
                sum({points}) FILTER (WHERE d.day BETWEEN {now_from} AND %(today)s) AS now,
                sum({points}) FILTER (WHERE d.day >= {yesterday_from} AND d.day < %(today)s)
                    AS yesterday,
                sum({points}) FILTER (WHERE d.day >= {last_period_from} AND d.day < %(first_day)s)
                    AS last_period,
                sum({points}) FILTER (WHERE d.day < %(yesterday_from)s) AS yesterday_last_period,
                bit_or(1 << (%(today)s::date - d.day))
                    FILTER (WHERE d.day BETWEEN %(first_day)s AND %(today)s) AS days,
                max(d.last_at) AS last_at
            FROM engagement_dailycount d
            WHERE d.product_id = %(product)s
              AND d.user_id = u.id
              AND d.day >= {before_from}
            GROUP BY d.event_name_id
        ) by_name
        LEFT JOIN engagement_scoredevent w
            ON w.score_set_id = %(score_set)s AND w.event_name_id = by_name.event_name_id
    ) scored
    WHERE weight > 0
) n ON true
LEFT JOIN LATERAL (
    -- The last scored event before the days above.
    SELECT d.last_at
    FROM engagement_dailycount d
    LEFT JOIN engagement_scoredevent w
        ON w.score_set_id = %(score_set)s AND w.event_name_id = d.event_name_id
    WHERE n.last_at IS NULL
      AND d.product_id = %(product)s
      AND d.user_id = u.id
      AND d.day < {before_from}
      AND COALESCE(w.weight, %(default_weight)s) > 0
    ORDER BY d.day DESC, d.last_at DESC
    LIMIT 1
) earlier ON true
WHERE u.id = ANY(%(subjects)b::bigint[]) AND u.is_identified AND u.product_id = %(product)s
ORDER BY u.id
ON CONFLICT (product_id, score_set_id, user_id) DO UPDATE SET
    raw = EXCLUDED.raw,
    raw_yesterday = EXCLUDED.raw_yesterday,
    raw_last_period = EXCLUDED.raw_last_period,
    raw_yesterday_last_period = EXCLUDED.raw_yesterday_last_period,
    event_count = EXCLUDED.event_count,
    active_days = EXCLUDED.active_days,
    name_count = EXCLUDED.name_count,
    last_active_at = EXCLUDED.last_active_at,
    settled_before = EXCLUDED.settled_before
WHERE (e.raw, e.raw_yesterday, e.raw_last_period, e.raw_yesterday_last_period, e.event_count,
       e.active_days, e.name_count, e.last_active_at)
    IS DISTINCT FROM
      (EXCLUDED.raw, EXCLUDED.raw_yesterday, EXCLUDED.raw_last_period,
       EXCLUDED.raw_yesterday_last_period, EXCLUDED.event_count, EXCLUDED.active_days,
       EXCLUDED.name_count, EXCLUDED.last_active_at)
