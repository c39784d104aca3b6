"""What a forecast says, in sentences. No number comes without its interval and its count."""

from collections.abc import Collection, Iterator
from datetime import date

from outcomes.forecasts.results import (
    Forecast,
    ForecastMonth,
    Measure,
    PastMonth,
    Sums,
    month_after,
)
from outcomes.kinds import Kind

LABELS = {Kind.RENEWAL: "Renewals", Kind.MONTHLY_STAY: "Monthly licenses"}
MEASURES = {Measure.SEATS: "Seats", Measure.CENTS: "Revenue"}


def amount(value: float, measure: Measure) -> str:
    """Like "1,204": seats, or whole US dollars."""
    return f"{value / 100 if measure is Measure.CENTS else value:,.0f}"


def interval(sums: Sums, measure: Measure) -> str:
    return f"{amount(sums.low, measure)} to {amount(sums.high, measure)}"


def summary(forecast: Forecast, measure: Measure) -> str:
    """What is expected, in a sentence: of all months, or of the first one that monthly licenses
    renew in."""
    last = forecast.months[-1].first_day
    if forecast.unknown:
        of_kind = "annual terms" if forecast.kind is Kind.RENEWAL else "monthly licenses"
        return (
            f"Nothing can be said yet of {of_kind} that are up for renewal until {last:%B %Y} "
            f"({forecast.unknown:,}): nobody knows of any that was decided before."
        )
    if forecast.total:
        return _sentence(forecast.kind, forecast.total[measure], measure, f"until {last:%B %Y}")
    return month_sentence(forecast.kind, forecast.months[0], measure)


def month_sentence(kind: Kind, month: ForecastMonth, measure: Measure) -> str:
    return _sentence(kind, month.sums[measure], measure, f"in {month.first_day:%B %Y}")


def _sentence(kind: Kind, sums: Sums, measure: Measure, when: str) -> str:
    what = "seats" if measure is Measure.SEATS else "US dollars"
    of_kind = "of annual terms" if kind is Kind.RENEWAL else "of monthly licenses"
    if not sums.terms:
        return f"No {what} {of_kind} are up for renewal {when}."
    return (
        f"Of {amount(sums.due, measure)} {what} {of_kind} that are up for renewal {when}, "
        f"{amount(sums.expected, measure)} are expected to renew ({interval(sums, measure)} in "
        f"80% of cases; {sums.terms:,} terms)."
    )


def coverage_sentence(forecast: Forecast, measure: Measure) -> str:
    """How good past forecasts were."""
    estimate = forecast.coverage.get(measure)
    if estimate is None:
        return "No past month can be compared with its forecast yet."
    within = round(estimate.value * estimate.outcomes)
    return (
        f"{within} of {estimate.outcomes} past months were within their 80% interval "
        f"({estimate.percent_range})."
    )


def within_text(month: PastMonth, measure: Measure) -> str:
    match month.is_within[measure]:
        case None:
            return f"{month.open:,} open" if month.open else "–"
        case is_within:
            return "within" if is_within else "missed"


def period_name(past: PastMonth) -> str:
    """Like "2026-08"; of a quarter like "2026-Q3"."""
    if past.months == 1:
        return f"{past.first_day:%Y-%m}"
    return f"{past.first_day:%Y}-Q{(past.first_day.month + 2) // past.months}"


def period_label(past: PastMonth) -> str:
    """Like "August 2026"; of a quarter like "July to September 2026"."""
    if past.months == 1:
        return f"{past.first_day:%B %Y}"
    return f"{past.first_day:%B} to {month_after(past.first_day, past.months - 1):%B %Y}"


def is_more(past: PastMonth, measure: Measure) -> bool:
    """Whether as much renewed as was expected, or more."""
    return past.happened[measure] >= past.sums[measure].expected


def difference_sentence(past: PastMonth, measure: Measure) -> str:
    """How far off the forecast was."""
    sums, renewed = past.sums[measure], past.happened[measure]
    what = "seats" if measure is Measure.SEATS else "US dollars"
    more = "more" if is_more(past, measure) else "fewer" if what == "seats" else "less"
    difference = amount(abs(renewed - sums.expected), measure)
    return (
        f"{amount(renewed, measure)} {what} renewed, {difference} {more} than expected "
        f"({amount(sums.expected, measure)}; {interval(sums, measure)} in 80% of cases)."
    )


def made_sentence(made_on: date, versions: Collection[int]) -> str:
    """When a forecast was made, and with which models."""
    models = ", ".join(map(str, sorted(versions)))
    how = f", by {'models' if len(versions) > 1 else 'model'} {models}" if models else ""
    return f"Made on {made_on:%-d %B %Y}{how}."


def remarks(forecast: Forecast, measure: Measure) -> Iterator[str]:
    """What one must know to read the figures."""
    if forecast.is_share:
        yield (
            f"Too few outcomes to tell accounts apart ({forecast.outcomes:,}): all have the share "
            "that renewed."
        )
    if forecast.learned_months:
        yield (
            "The interval allows for chance, for what the model does not know, and for months that "
            f"differ as {forecast.learned_months} past ones did."
        )
    else:
        yield (
            "The interval allows for chance and for what the model does not know. No past month "
            "tells by how much months differ, so it may be too narrow."
        )
    if forecast.kind is Kind.MONTHLY_STAY:
        yield "A monthly license counts in each month, with the chance that it is still there then."
    yield "A renewal with fewer seats counts with all seats that were up for renewal."
    unknown = sum(month.terms - month.sums[measure].terms for month in forecast.months)
    if unknown:
        what = "seats" if measure is Measure.SEATS else "sales"
        yield f"{unknown:,} terms are left out, whose {what} are not known."
