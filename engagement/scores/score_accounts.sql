-- Computes the engagement rows of accounts from the daily counts of their users.
--
-- The planner must know the product, and braces and "o" are as in score_users.sql. counted_user has the users that count, with their current
-- account: all identified users, or those in the audience.
INSERT INTO engagement_accountengagement AS e (
    product_id, score_set_id, account_id, active_users, total_users, raw, raw_yesterday,
    raw_last_period, raw_yesterday_last_period, event_count, active_days, name_count,
    last_active_at, top_user_points, name_count_last_period, active_users_last_period,
    settled_before)
WITH counted_user AS NOT MATERIALIZED ({counted_users})
SELECT
    %(product)s::bigint, %(score_set)s, a.id, n.active_users, members.count + n.former_users,
    {least}COALESCE(n.raw, 0){until_now}, {least}COALESCE(n.raw_yesterday, 0){until_yesterday},
    {least}COALESCE(n.raw_last_period, 0){until_last_period},
    {least}COALESCE(n.raw_yesterday_last_period, 0){settled}, COALESCE(n.event_count, 0),
    COALESCE(n.active_days, 0), COALESCE(n.name_count, 0), COALESCE(n.last_at, earlier.last_at),
    COALESCE(n.top_user_points, 0), COALESCE(n.name_count_last_period, 0),
    COALESCE(n.active_users_last_period, 0), {settled_before}
FROM engagement_account a
{join_settled}
LEFT JOIN LATERAL (
    SELECT
        sum(raw) FILTER (WHERE is_user) AS raw,
        sum(raw_yesterday) FILTER (WHERE is_user) AS raw_yesterday,
        sum(raw_last_period) FILTER (WHERE is_user) AS raw_last_period,
        sum(raw_yesterday_last_period) FILTER (WHERE is_user) AS raw_yesterday_last_period,
        sum(event_count) FILTER (WHERE is_user) AS event_count,
        bit_count(bit_or(days) FILTER (WHERE is_user)::bit(32)) AS active_days,
        max(last_at) FILTER (WHERE is_user) AS last_at,
        max({own_points}) FILTER (WHERE is_user) AS top_user_points,
        count(*) FILTER (WHERE is_user AND event_count > 0) AS active_users,
        count(*) FILTER (WHERE is_user AND last_events > 0) AS active_users_last_period,
        -- Their current account is another one, or none. The others are counted as members.
        count(*) FILTER (WHERE is_user AND current_account_id IS DISTINCT FROM a.id{and_seen})
            AS former_users,
        count(*) FILTER (WHERE NOT is_user AND event_count > 0) AS name_count,
        count(*) FILTER (WHERE NOT is_user AND last_events > 0) AS name_count_last_period
    FROM (
        -- A row for each user, and a row for each event name: counting distinct ones would sort.
        SELECT
            GROUPING(user_id) = 0 AS is_user,
            max(current_account_id) AS current_account_id,
            {seen_of_user}
            sum(now * weight) AS raw,
            sum(yesterday * weight) AS raw_yesterday,
            sum(last_period * weight) AS raw_last_period,
            sum(yesterday_last_period * weight) AS raw_yesterday_last_period,
            sum(recent) FILTER (WHERE weight > 0) AS event_count,
            sum(last_events) FILTER (WHERE weight > 0) AS last_events,
            bit_or(days) FILTER (WHERE weight > 0) AS days,
            max(last_at) FILTER (WHERE weight > 0) AS last_at
        FROM (
            SELECT
                by_name.*,
                u.account_id AS current_account_id,
                COALESCE(w.weight, %(default_weight)s) AS weight
            FROM (
                -- One row per user and event name first, as in score_users.sql.
                SELECT
                    d.user_id,
                    d.event_name_id,
                    {seen_of_name}
                    sum(d.count) FILTER (WHERE d.day BETWEEN %(first_day)s AND %(today)s) AS recent,
                    sum(d.count)
                        FILTER (WHERE d.day >= %(last_period_from)s AND d.day < %(first_day)s)
                        AS last_events,
                    sum({points}) FILTER (WHERE d.day BETWEEN {now_from} AND %(today)s) AS now,
                    sum({points}) FILTER (WHERE d.day >= {yesterday_from} AND d.day < %(today)s)
                        AS yesterday,
                    sum({points})
                        FILTER (WHERE d.day >= {last_period_from} AND d.day < %(first_day)s)
                        AS last_period,
                    sum({points})
                        FILTER (WHERE d.day >= {before_from} AND d.day < %(yesterday_from)s)
                        AS yesterday_last_period,
                    bit_or(1 << (%(today)s::date - d.day))
                        FILTER (WHERE d.day BETWEEN %(first_day)s AND %(today)s) AS days,
                    max(d.last_at) AS last_at
                FROM engagement_dailycount d
                WHERE d.product_id = %(product)s
                  AND d.account_id = a.id
                  AND d.day >= {read_from}
                GROUP BY d.user_id, d.event_name_id
            ) by_name
            JOIN counted_user u ON u.id = by_name.user_id
            LEFT JOIN engagement_scoredevent w
                ON w.score_set_id = %(score_set)s AND w.event_name_id = by_name.event_name_id
        ) scored
        GROUP BY GROUPING SETS ((user_id), (event_name_id))
    ) grouped
) n ON true
CROSS JOIN LATERAL (
    -- Users whose current account this is, with or without an event.
    SELECT count(*) AS count FROM counted_user m WHERE m.account_id = a.id
) members
LEFT JOIN LATERAL (
    -- The last scored event before the days above.
    SELECT d.last_at
    FROM engagement_dailycount d
    JOIN counted_user u ON u.id = d.user_id
    LEFT JOIN engagement_scoredevent w
        ON w.score_set_id = %(score_set)s AND w.event_name_id = d.event_name_id
    WHERE n.last_at IS NULL
      AND d.product_id = %(product)s
      AND d.account_id = a.id
      AND d.day < {read_from}
      AND COALESCE(w.weight, %(default_weight)s) > 0
    ORDER BY d.day DESC, d.last_at DESC
    LIMIT 1
) earlier ON true
WHERE a.id = ANY(%(subjects)b::bigint[]) AND a.is_identified AND a.product_id = %(product)s
ORDER BY a.id
ON CONFLICT (product_id, score_set_id, account_id) DO UPDATE SET
    active_users = EXCLUDED.active_users,
    total_users = EXCLUDED.total_users,
    raw = EXCLUDED.raw,
    raw_yesterday = EXCLUDED.raw_yesterday,
    raw_last_period = EXCLUDED.raw_last_period,
    raw_yesterday_last_period = EXCLUDED.raw_yesterday_last_period,
    event_count = EXCLUDED.event_count,
    active_days = EXCLUDED.active_days,
    name_count = EXCLUDED.name_count,
    last_active_at = EXCLUDED.last_active_at,
    top_user_points = EXCLUDED.top_user_points,
    name_count_last_period = EXCLUDED.name_count_last_period,
    active_users_last_period = EXCLUDED.active_users_last_period,
    settled_before = EXCLUDED.settled_before
WHERE (e.active_users, e.total_users, e.raw, e.raw_yesterday, e.raw_last_period,
       e.raw_yesterday_last_period, e.event_count, e.active_days, e.name_count, e.last_active_at,
       e.top_user_points, e.name_count_last_period, e.active_users_last_period)
    IS DISTINCT FROM
      (EXCLUDED.active_users, EXCLUDED.total_users, EXCLUDED.raw, EXCLUDED.raw_yesterday,
       EXCLUDED.raw_last_period, EXCLUDED.raw_yesterday_last_period, EXCLUDED.event_count,
       EXCLUDED.active_days, EXCLUDED.name_count, EXCLUDED.last_active_at,
       EXCLUDED.top_user_points, EXCLUDED.name_count_last_period,
       EXCLUDED.active_users_last_period)
