"""Examples of the read API's responses. A test validates each against its schema."""

from config.openapi.pieces import Json

_HOST = "https://eds.example.com"
_V2 = f"{_HOST}/v2"

WORKSPACE: Json = {
    "id": 1,
    "name": "Default",
    "product": {"id": 1, "name": "Example App"},
    "lookback_days": 7,
    "half_life_days": None,
    "benchmarks": {"users": 41.5, "accounts": 208.2},
    "updated_at": "2026-09-24T09:30:00.000000Z",
    "_links": {
        "self": f"{_V2}/workspaces/1",
        "users": f"{_V2}/users?workspace_id=1",
        "accounts": f"{_V2}/accounts?workspace_id=1",
        "segments": f"{_V2}/segments?workspace_id=1",
    },
}
FALSE_ALARMS: Json = {
    "allowed": 0.05,
    "measured": 0.0412,
    "came_to_nothing": 23,
    "alarms": 61,
    "rising": {"measured": 0.0251, "came_to_nothing": 14, "alarms": 52},
}
CHANCE: Json = {
    "account": {"id": 17, "tracking_id": "initech", "name": "Initech"},
    "kind": "evaluation",
    "license": "SEN-1842",
    "began_on": "2026-11-15",
    "day": "2026-12-15",
    "chance": {"value": 0.34, "low": 0.21, "high": 0.5, "outcomes": 312},
    "is_share": False,
    "seats": 50,
    "cents": None,
    "facts": [
        {
            "feature": "users",
            "value": 2.0,
            "usual": 5.0,
            "effect": -0.12,
            "text": "2 active users; usual 5: lowers the chance by 12 points.",
        }
    ],
    "similar": [
        {
            "account": {"id": 9, "tracking_id": "hooli", "name": "Hooli"},
            "day": "2026-08-02",
            "result": "bought",
            "is_good": True,
        }
    ],
    "version": 41,
    "looked_on": "2026-11-24",
}
_AUC = {"value": 0.7712, "low": 0.6843, "high": 0.8581, "outcomes": 214}
_DUE = {"terms": 32, "due": 2103, "expected": 1627.5, "low": 1166, "high": 2080}
_SUMS = {"seats": _DUE, "cents": _DUE | {"due": 4206000, "expected": 3255000.0, "low": 2332000}}
_SUMS["cents"]["high"] = 4160000
FORECAST: Json = {
    "kind": "renewal",
    "made_on": "2026-11-24",
    "texts": {
        "seats": "Of 2,103 seats of annual terms that are up for renewal until February 2027, "
        "1,628 are expected to renew (1,166 to 2,080 in 80% of cases; 32 terms). 7 of 8 "
        "past months were within their 80% interval (53 to 98%)."
    },
    "outcomes": 214,
    "is_share": False,
    "learned_months": 24,
    "months": [
        {
            "first_day": "2026-11-01",
            "terms": 32,
            "answered": 4,
            "sums": _SUMS,
            "bands": [{"low": 0, "high": 25, "sums": _SUMS}],
        }
    ],
    "total": _SUMS,
    "quarter": _SUMS,
    "past": [
        {
            "first_day": "2026-10-01",
            "made_on": "2026-10-01",
            "terms": 32,
            "open": 0,
            "unknown": 1,
            "sums": _SUMS,
            "happened": {"seats": 1702.5, "cents": 3405000.0},
            "is_within": {"seats": True, "cents": True},
        }
    ],
    "past_quarters": [],
    "coverage": {"seats": {"value": 0.875, "low": 0.5291, "high": 0.9776, "outcomes": 8}},
    "revision": 12345,
    "versions": [3],
    "unknown": 0,
    "computed_at": "2026-11-24T06:00:00.000000Z",
}
_INITECH: Json = {"id": 17, "tracking_id": "initech", "name": "Initech"}
CHANGES: Json = {
    "text": "2 alarms began, 1 ended and 3 accounts are new.",
    "period": {"first": "2026-11-17", "last": "2026-11-23"},
    "lookback_days": 7,
    "began": {
        "count": 2,
        "first": [
            {
                "account": _INITECH,
                "insight": "trend_down",
                "since": "2026-11-18",
                "text": "Usually 11–25 active user-days in two weeks, now 4. By chance this "
                "account would do so once in 7 months. Since 18 November.",
            }
        ],
        "by_insight": {"trend_down": 1, "trend_up": 1},
    },
    "ended": {
        "count": 1,
        "first": [
            {
                "account": _INITECH,
                "insight": "trend_down",
                "since": "2026-11-03",
                "ended_on": "2026-11-20",
                "outcome": "recovered",
                "text": "Back to usual.",
            }
        ],
    },
    "rose": {"count": 41, "first": [{"account": _INITECH, "score": 77.3, "change": 45.6}]},
    "fell": {"count": 37, "first": [{"account": _INITECH, "score": 13.8, "change": -76.0}]},
    "new": {"count": 3, "first": [{"account": _INITECH, "score": 16.7, "change": None}]},
    "stopped": 4,
    "returned": 1,
    "segments": [{"id": 12, "name": "Ice Cold", "scope": "account", "entered": 5, "left": 2}],
    "evaluations": {"count": 0, "first": []},
    "renewals": {
        "count": 6,
        "first": [
            {
                "account": _INITECH,
                "license": "SEN-1842",
                "day": "2026-11-26",
                "seats": 50,
                "chance": {"value": 0.62, "low": 0.48, "high": 0.75, "outcomes": 214},
                "is_share": False,
            }
        ],
    },
}
TREND_POINT: Json = {
    "first_day": "2026-11-17",
    "last_day": "2026-11-23",
    "accounts": 159,
    "daily_accounts": 74,
    "weekly_accounts": 134,
    "new_accounts": 1,
    "returned_accounts": 2,
    "stopped_accounts": 1,
    "account_mean": 40.1,
    "account_median": 39.9,
    "account_bands": [31, 20, 14, 15, 19, 18, 9, 7, 12, 14],
    "users": 1057,
    "daily_users": 212,
    "weekly_users": 537,
    "user_mean": 27.9,
    "user_median": 3.7,
    "user_bands": [540, 93, 71, 62, 58, 51, 47, 44, 42, 49],
    "seats": 1930,
    "active_seats": 512,
    "entered": None,
    "left": None,
}
BACKTEST: Json = {
    "kind": "renewal",
    "segment_id": None,
    "texts": [
        "The score predicts renewals: better than chance, and better than the days since the last "
        "activity do. 60 days before their renewal, 21 accounts scored under 25: 9 did not renew "
        "(24 to 63%). 88 scored 75 or more: 2 did not (1 to 8%)."
    ],
    "horizons": [
        {
            "days": 60,
            "verdict": "better_than_both",
            "outcomes": 214,
            "bad": 26,
            "needed": 30,
            "already_answered": 7,
            "without_data": 4,
            "bands": [
                {
                    "low": 0,
                    "high": 25,
                    "outcomes": 21,
                    "bad": 9,
                    "rate": {"value": 0.4286, "low": 0.2447, "high": 0.6345, "outcomes": 21},
                }
            ],
            "reliability": [
                {
                    "expected": 0.35,
                    "observed": {"value": 0.3333, "low": 0.2105, "high": 0.4843, "outcomes": 42},
                }
            ],
            "auc": _AUC,
            "auc_of_recency": _AUC | {"value": 0.6214, "low": 0.5301, "high": 0.7127},
            "auc_of_age": _AUC | {"value": 0.5218, "low": 0.4102, "high": 0.6334},
            "better_than_recency": _AUC | {"value": 0.1498, "low": 0.0872, "high": 0.2124},
            "lift": {"value": 2.4, "low": 1.6, "high": 3.3, "outcomes": 31},
            "brier": 0.1121,
            "late_events": 0.0042,
        }
    ],
    "excluded": {"sandbox": 14, "open": 9},
    "first_day": "2025-03-01",
    "last_day": "2026-09-10",
    "revision": 12345,
    "sampled_of": None,
    "computed_at": "2026-09-24T01:12:05.000000Z",
}
STATS = {"total_users": 1840, "total_accounts": 212, "active_users": 633, "active_accounts": 148}
PRODUCT_ACTIVITY = {
    "state": "falling",
    "decided_for": "2026-09-23",
    "observed": 9870,
    "expected": 13610.4,
    "p": 2.1e-07,
}

ACCOUNT: Json = {
    "id": 17,
    "tracking_id": "a1",
    "name": "Example Ltd",
    "owner": "dana",
    "tags": ["onboarding"],
    "activity": {
        "state": "falling",
        "reason": None,
        "since": "2026-09-04",
        "decided_for": "2026-09-23",
    },
    "score": 80.8,
    "score_change": 23.4,
    "score_change_complete_days": 24.1,
    "active_users": 4,
    "last_active_at": "2026-09-24T08:12:44.120000Z",
    "_links": {"self": f"{_V2}/accounts/17?workspace_id=1"},
}
USER: Json = {
    "id": 52,
    "tracking_id": "u1",
    "email": "ada@example.com",
    "name": "Ada",
    "score": 67.3,
    "score_change": -2.1,
    "score_change_complete_days": 0.0,
    "last_active_at": "2026-09-24T08:12:44.120000Z",
    "account": {"id": 17, "tracking_id": "a1", "name": "Example Ltd"},
    "_links": {"self": f"{_V2}/users/52?workspace_id=1"},
}
_METRICS: Json = {
    "engagement_score": 80.8,
    "raw_score": 149,
    "percentile": 78.4,
    "score_yesterday": 79.9,
    "score_last_period": 57.4,
    "score_change": 23.4,
    "score_change_complete_days": 24.1,
    "trend": "rising",
    "frequency": 5,
    "adoption": 0.4,
    "adoption_all_time": 0.7,
    "recently_scored_events": 96,
    "overall_scored_events": 2310,
    "last_active_at": "2026-09-24T08:12:44.120000Z",
}
_ACCOUNT_METRICS: Json = {
    "active_users": 4,
    "total_users": 6,
    "active_share": 0.6666666666666666,
    "license_utilization": 0.08,
}
_TIMES: Json = {
    "first_seen_at": "2026-01-05T08:00:00.000000Z",
    "created_at": "2026-01-05T08:00:00.000000Z",
    "tenure_days": 262,
    "updated_at": "2026-09-23T16:41:07.000000Z",
}
_EXPANDED: Json = {
    "traits": {"name": "Example Ltd", "domain": "example.com", "am.tier.number": 50},
    "segments": [{"id": 14, "name": "All"}, {"id": 22, "name": "Red Hot"}],
    "events": [
        {"name": "Dashboard_Viewed", "count": 15, "weight": 5, "points": 75},
        {"name": "Report_Created", "count": 74, "weight": 1, "points": 74},
    ],
    "events_total": 2,
    "history": [{"day": "2026-09-23", "score": 79.9}, {"day": "2026-09-24", "score": 80.8}],
    "scoring_changes": [
        {"day": "2026-09-23", "changed": ["weights", "window"], "is_suggestion": True}
    ],
}
_CHANCES: Json = {
    "chance_to_buy": None,
    "chance_to_renew": {"chance": 0.34, "low": 0.2, "high": 0.51},
    "chance_to_stay": None,
}
_CLOSED_ALARMS: list[Json] = [
    {
        "kind": "trend_down",
        "since": "2026-09-14",
        "result": "saved",
        "means": "good",
        "closed_at": "2026-09-21T15:02:11.000000Z",
    }
]
LISTED_ACCOUNT: Json = {
    **ACCOUNT,
    "chances": _CHANCES,
    "closed_alarms": _CLOSED_ALARMS,
    "metrics": {**_METRICS, **_ACCOUNT_METRICS},
    "traits": {"domain": "example.com", "am.tier.number": 50},
}
LISTED_USER: Json = {**USER, "traits": {"plan": "pro", "role": None}}
_INSIGHTS: Json = {
    "insights": [
        {
            "kind": "trend_down",
            "severity": "warning",
            "text": "Usually 11–26 active user-days in two weeks, now 4. By chance this account "
            "would do so less than once in 10 years. Since 4 September. Comparable accounts: +2%.",
            "numbers": {
                "window_days": 14,
                "observed": 4,
                "expected": 18.0,
                "expected_low": 11,
                "expected_high": 26,
                "common_change": 0.02,
                "once_in_days": 3652,
                "p": 0.0004,
                "since": "2026-09-04",
                "baseline": {"from": "2026-05-01", "to": "2026-08-20", "weeks": 16},
                "users": 6,
                "score": 80.8,
                "score_last_period": 57.4,
                "score_change": 23.4,
            },
        },
        {
            "kind": "seats_unused",
            "severity": "notice",
            "text": "Only 4 of 50 licensed seats are active (8%).",
            "numbers": {"active_users": 4, "seats": 50, "license_utilization": 0.08},
        },
    ]
}
FULL_ACCOUNT: Json = {**ACCOUNT, "metrics": {**_METRICS, **_ACCOUNT_METRICS}, **_TIMES}
LICENSE_EVENT: Json = {
    "id": "E-7QK-2ZD-9MA-4WX/seats_up/25-40-2027-09-10",
    "license": "E-7QK-2ZD-9MA-4WX",
    "type": "seats_up",
    "date": "2026-09-10",
    "known_on": "2026-09-11",
    "text": "Seats added: 25 → 40.",
    "details": {"from": 25, "to": 40},
    "sources": ["sync"],
    "account": {"id": 17, "tracking_id": "a1", "name": "Example Ltd"},
    "recorded_at": "2026-09-11T04:10:00.000000Z",
    "changed_at": "2026-09-11T04:10:00.000000Z",
    "withdrawn_at": None,
}
COHORT: Json = {
    "week": "2026-09-07",
    "group": "All",
    "value": None,
    "first_seen": 40,
    "weeks": [
        {
            "active": 30,
            "share": {"value": 0.75, "low": 0.598, "high": 0.858, "outcomes": 40},
            "is_complete": True,
        },
        {
            "active": 12,
            "share": {"value": 0.3, "low": 0.181, "high": 0.454, "outcomes": 40},
            "is_complete": False,
        },
    ],
    "through": "2026-09-16",
}
_HALF: Json = {"value": 0.5, "low": 0.352, "high": 0.648, "outcomes": 40}
ACTIVATION: Json = {
    "subjects": "account",
    "day": "2026-09-17",
    "total": 40,
    "activated": 20,
    "share": _HALF,
    "days": [2, 4, 9],
    "steps": [
        {
            "name": "Create a report",
            "text": "Event “Report_Created” within 14 days",
            **{"reached": 20, "share": _HALF, "on_the_way": 8, "stuck": 12, "days": [2, 4, 9]},
        }
    ],
    "weeks": [
        {
            **{"week": "2026-09-07", "first_seen": 40, "reached": [20]},
            **{"share": _HALF, "is_over": False},
        }
    ],
}
_STEPS: Json = {
    **{"state": "activated", "next_step": None, "activated_on": "2026-09-11"},
    "steps": [{"name": "Create a report", "is_done": True, "done_on": "2026-09-11"}],
}
TIMELINE_ENTRY: Json = {
    "day": "2026-09-17",
    "kind": "alarm",
    "type": "fall_began",
    "text": "Activity falling: 4 active user-days in 2 weeks, 18 usual.",
}
FEATURE: Json = {
    "id": 4,
    "name": "Reports",
    "events": ["Report_Created", "Report_Shared"],
    "through": "2026-09-23",
    "used_accounts": 312,
    "active_accounts": 1004,
    "started_accounts": 14,
    "stopped_accounts": 9,
}
_FEATURES: list[Json] = [
    {"id": 4, "name": "Reports", "state": "used", "last_used_on": "2026-09-23"},
    {"id": 5, "name": "Automation", "state": "never", "last_used_on": None},
]
EXPANDED_ACCOUNT: Json = {
    **(FULL_ACCOUNT | _INSIGHTS | _EXPANDED),
    "license_events": [LICENSE_EVENT],
    "chances": _CHANCES,
    "features": _FEATURES,
    "activation": _STEPS,
    "closed_alarms": _CLOSED_ALARMS,
    "notes": [
        {
            "id": 7,
            "author": "dana",
            "text": "Two admins left. Offered a call on Monday.",
            "written_at": "2026-09-23T09:14:00.000000Z",
        }
    ],
}
FULL_USER: Json = {
    **USER,
    "metrics": _METRICS
    | {"engagement_score": 67.3, "raw_score": 20, "score_last_period": 69.4}
    | {"score_change": -2.1, "trend": "steady", "score_yesterday": 67.3}
    | {"score_change_complete_days": 0.0},
    **_TIMES,
}
EXPANDED_USER: Json = FULL_USER | {
    "traits": {"name": "Ada", "email": "ada@example.com", "plan": "pro"},
    "segments": [{"id": 1, "name": "All"}, {"id": 5, "name": "Slightly Engaged"}],
    "events": [{"name": "Report_Created", "count": 20, "weight": 1, "points": 20}],
    "events_total": 1,
    "features": _FEATURES,
    "activation": _STEPS,
    "history": [{"day": "2026-09-23", "score": 67.3}, {"day": "2026-09-24", "score": 67.3}],
    "scoring_changes": [
        {"day": "2026-09-23", "changed": ["weights", "window"], "is_suggestion": True}
    ],
}
SEGMENT: Json = {
    "id": 22,
    "name": "Red Hot",
    "scope": "account",
    "is_default": True,
    "match": "all",
    "conditions": [
        {
            "kind": "metric",
            "metric": "score_change",
            "operator": "at_least",
            "value": 10,
            "upper": None,
        }
    ],
    "_links": {
        "self": f"{_V2}/segments/22?workspace_id=1",
        "members": f"{_V2}/segments/22/members?workspace_id=1",
    },
}
LEGACY_ACCOUNT: Json = {
    "id": 17,
    "tracking_id": "a1",
    "name": "Example Ltd",
    "metrics": _METRICS
    | {
        "engagement_score": 0.808,
        "score_yesterday": 0.799,
        "score_last_period": 0.574,
        "score_change": 0.234,
        "score_change_complete_days": 0.241,
    }
    | _ACCOUNT_METRICS
    | {"last_seen": "2026-09-23T16:41:07.000000Z"},
    "_expansions": [],
}


def page(record: Json, path: str, *expansions: str) -> Json:
    """A page of one record, with a next page."""
    url = f"{_V2}/{path}"
    if expansions:
        url += ("&" if "?" in url else "?") + f"expand={','.join(expansions)}"
    separator = "&" if "?" in url else "?"
    return {
        "data": [record],
        "pagination": {"limit": 1, "offset": 0, "has_more": True},
        "_expansions": list(expansions),
        "_links": {
            "self": f"{url}{separator}limit=1",
            "next": f"{url}{separator}limit=1&cursor=AZSqYWNjb3VudHMvMZLMlRHCAQ",
        },
    }


def single_record(record: Json, *expansions: str) -> Json:
    return {"data": record, "_expansions": list(expansions)}
