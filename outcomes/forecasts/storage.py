"""The stored forecasts: kept, found, and rid of forgotten licenses. Pages read them: nothing here
needs numpy."""

from collections.abc import Collection, Sequence
from datetime import date, datetime
from typing import LiteralString, NamedTuple

import msgspec
from django.db.models import QuerySet

from core.database import sql
from engagement.models import Workspace
from outcomes.forecasts.results import Forecast, Measure, PastMonth, Term, month_after
from outcomes.kinds import Kind
from outcomes.models import StoredForecast

JOB = "forecast renewals"

_MODELS: LiteralString = """
    SELECT coalesce(bool_and(is_share), true),
           coalesce(array_agg(DISTINCT version) FILTER (WHERE version IS NOT NULL), '{}')
    FROM engagement_accountchance
    WHERE product_id = %(product)s AND workspace_id = %(workspace)s AND kind = %(kind)s
"""
_RENAME: LiteralString = """
    UPDATE outcomes_storedforecast f
    SET licenses = ARRAY(
        SELECT CASE WHEN l = ANY(%(names)b::text[]) THEN %(name)s ELSE l END
        FROM unnest(f.licenses) WITH ORDINALITY AS t(l, place) ORDER BY place)
    WHERE product_id = %(product)s AND f.licenses::text[] && %(names)b::text[]
"""


class Models(NamedTuple):
    """Whether all had too few outcomes to tell accounts apart, and the versions of the models."""

    is_share: bool
    versions: Sequence[int]


def models_behind(workspace: Workspace, kind: Kind) -> Models:
    """The models of the present chances."""
    parameters = {"product": workspace.product_id, "workspace": workspace.pk, "kind": kind.value}
    (row,) = sql.fetch(_MODELS, parameters)
    return Models(*row)


def latest_rows(workspaces: Collection[int]) -> QuerySet[StoredForecast]:
    """The rows of the latest forecasts, without terms."""
    rows = StoredForecast.objects.filter(workspace__in=workspaces, stays=False)
    return rows.only("workspace_id", "kind", "made_on", "result", "versions").order_by("-kind")


def latest(workspace: Workspace) -> dict[Kind, Forecast]:
    """The latest forecast of each kind that has one, renewals first."""
    return {Kind(row.kind): decode(row) for row in latest_rows([workspace.pk])}


def latest_of(workspaces: Collection[int]) -> dict[int, Forecast]:
    """The latest forecast of each workspace with terms ahead: of annual ones, or else of monthly
    licenses."""
    # Of a workspace, the last row in this order counts.
    rows = latest_rows(workspaces).order_by("kind")
    forecasts = [(row.workspace_id, decode(row)) for row in rows]
    return {
        workspace: forecast
        for workspace, forecast in forecasts
        if not forecast.unknown and any(month.terms for month in forecast.months)
    }


def of_this_month(workspace: Workspace, kind: Kind, today: date) -> Forecast | None:
    """The one that was made on the first look of the month, and stays."""
    rows = StoredForecast.objects.filter(workspace=workspace, kind=kind, stays=True)
    row = rows.filter(made_on__gte=today.replace(day=1)).only("result").first()
    return decode(row) if row else None


def decode(row: StoredForecast) -> Forecast:
    return msgspec.convert(row.result, Forecast)


def save(
    workspace: Workspace,
    forecast: Forecast,
    terms: Sequence[Term],
    versions: Sequence[int],
    looked_at: datetime,
) -> None:
    """Store the latest forecast; and, if it is the first one of its month that can say something of
    all terms, as one that stays."""
    kind, day = forecast.kind, forecast.made_on
    values = {
        "product_id": workspace.product_id,
        "result": msgspec.to_builtins(forecast),
        "versions": list(versions),
        "looked_at": looked_at,
    }
    columns = {"licenses": "license", "days": "day", "seats": "seats", "cents": "cents"}
    columns |= {"chances": "chance"}
    own = StoredForecast.objects.filter(workspace=workspace, kind=kind)
    StoredForecast.objects.update_or_create(
        workspace=workspace,
        kind=kind,
        stays=False,
        defaults={"made_on": day, **values, **{column: [] for column in columns}},
    )
    this_month = own.filter(made_on__gte=day.replace(day=1), made_on__lt=month_after(day, 1))
    if not forecast.unknown and not this_month.filter(stays=True).exists():
        arrays = {
            column: [getattr(term, name) for term in terms] for column, name in columns.items()
        }
        StoredForecast.objects.create(
            workspace=workspace, kind=kind, stays=True, made_on=day, **values, **arrays
        )


class DecisiveTerm(NamedTuple):
    """A term that made a difference, with the site of its license ("" if it is gone)."""

    license: str
    day: date
    seats: int | None
    cents: int | None
    chance: float
    cloud_id: str


_DECISIVE: LiteralString = """
    SELECT f.licenses[p.place], f.days[p.place], f.seats[p.place], f.cents[p.place],
        f.chances[p.place]
    FROM outcomes_storedforecast f
    CROSS JOIN unnest(%(places)b::int[]) WITH ORDINALITY AS p(place, number)
    WHERE f.workspace_id = %(workspace)s AND f.kind = %(kind)s AND f.stays
      AND f.made_on = %(made_on)s
    ORDER BY p.number
"""
# On a cluster, no statement joins these with forecasts.
_SITES: LiteralString = """
    SELECT DISTINCT ON (license) license, cloud_id FROM outcomes_licenseoutcome
    WHERE product_id = %(product)s AND license = ANY(%(licenses)b::text[]) AND kind = %(kind)s
    ORDER BY license, day DESC
"""


def decisive_terms(
    workspace: Workspace, forecast: Forecast, past: PastMonth, measure: Measure
) -> list[DecisiveTerm]:
    """The terms that made the difference in past months, those with most that was not expected
    first. A forgotten one has no license."""
    own = ((each.first_day, each.months, each) for each in forecast.decisive)
    decisive = next((e for day, m, e in own if (day, m) == (past.first_day, past.months)), None)
    if decisive is None:
        return []
    parameters = {
        "product": workspace.product_id,
        "workspace": workspace.pk,
        "kind": forecast.kind.value,
        "made_on": decisive.made_on,
        "places": decisive.places[measure],
    }
    rows = sql.fetch(_DECISIVE, parameters)
    licenses = sorted({license for license, *_ in rows})
    sites: dict[str, str] = dict(sql.fetch(_SITES, {**parameters, "licenses": licenses}))
    return [
        DecisiveTerm(license, day, seats, cents, chance, sites.get(license, ""))
        for license, day, seats, cents, chance in rows
    ]


def rename_licenses(product_id: int, names: Collection[str], name: str) -> None:
    """Have the terms of these licenses belong to another one, or to none (""). Amounts stay."""
    if names:
        sql.execute(_RENAME, {"product": product_id, "names": sorted(names), "name": name})
