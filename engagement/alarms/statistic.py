"""One night's statistic: by how much each account differs from its usual activity, and how often
chance alone does that. Pure functions on arrays with an entry for each account.

A window of the last 2, 4, or 8 weeks is compared with up to 16 weeks before it, scaled by how
comparable accounts moved (*movement*). How far accounts usually miss their expectation
(*dispersion*) is learnt every night from the errors of all accounts of about one size, and from the
spread of each account's own weeks (*burstiness*). docs/decisions/engagement.md says why.

All accounts teach the night's ``Parameters``; each is then judged by them alone. Both work in
chunks: besides the weekly sums, a million accounts take about 30 MB.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt

from engagement.alarms.negative_binomial import lower_tail, no_activity, upper_tail

Array: TypeAlias = npt.NDArray[Any]

WINDOWS = (2, 4, 8)  # weeks
BASELINE_WEEKS, LEAST_WEEKS = 16, 8
WEEKS = WINDOWS[-1] + BASELINE_WEEKS
REGIONS = 3
# From these expected user-days on, an account is of the next size.
SIZE_BOUNDS = np.array([3.0, 10.0, 30.0, 100.0, 300.0])
SIZES = len(SIZE_BOUNDS) + 1
# The dispersion of a size is that of an account with this expectation.
SIZE_MIDDLES = np.array([1.5, 6.0, 20.0, 60.0, 200.0, 600.0])
CHUNK = 8_192

# What an account and the accounts together need, to teach common movement.
MOVEMENT_LEAST_EXPECTED, MOVEMENT_LEAST_ACCOUNTS = 5.0, 20
REGION_LEAST_ACCOUNTS, REGION_PRIOR = 5, 10
LEAST_MOVEMENT = 0.02
# The medians of single weeks are those of this many accounts: more change nothing.
WEEKLY_SAMPLE = 20_000
BURSTINESS_PRIOR, GREATEST_SPREAD, LEAST_WEEKLY_RATE = 8, 6.0, 0.05
# Three quarters of the values of a normal distribution are nearer than this to its mean.
QUARTILE, NORMAL_QUARTILE = 0.75, 1.1503
DISPERSION_PRIOR, LEAST_ERROR_EXPECTED = 10, 0.5
LEAST_FACTOR, LEAST_DISPERSION = 0.7, 1.02
# Nobody wants to hear of smaller changes of large accounts, although chance does not explain them.
FALL_SHARE, RISE_SHARE, RISE_LEAST = 0.8, 1.3, 5
# What account_activity() returns, as AccountEngagement.activity stores it.
DECIDABLE, TOO_QUIET, TOO_NEW = 0, 1, 2

# What judge() finds for a window of an account. The baseline has *rate* user-days a week in *weeks*
# weeks; its spread is *burstiness* times that of accounts of the same size. The variance of the
# window is *dispersion* times what is *expected*. *p_fall* and *p_rise* are the chances of at most
# or at least as much activity, *p_nothing* is the one of none. The first two are 1 where the window
# is not usable, and where the difference is too small to matter.
FIGURES = np.dtype(
    [
        ("rate", "f8"),
        ("weeks", "f8"),
        ("burstiness", "f8"),
        ("observed", "f8"),
        ("expected", "f8"),
        ("dispersion", "f8"),
        ("p_fall", "f8"),
        ("p_rise", "f8"),
        ("p_nothing", "f8"),
        ("is_usable", "?"),
    ]
)

# An index of all windows at once: arrays have a row for each.
_ALL = np.arange(len(WINDOWS))[:, None]
_WEEKS_OF = np.array(WINDOWS)


@dataclass(frozen=True)
class Accounts:
    """Accounts at the end of a complete day.

    ``weeks`` has a row for each account and its user-days in 24 weeks, those of the last seven days
    first: uint16 or uint32. ``ages`` is the number of complete weeks since its first active day (24
    stands for more, too). ``is_small`` says that at most two users were active on any day of the 24
    weeks. ``regions`` is the band of its median UTC hour: 0 before 12, 1 before 19, 2 after that.
    """

    weeks: Array
    ages: Array
    is_small: Array
    regions: Array

    def __len__(self) -> int:
        return len(self.weeks)

    def part(self, rows: slice | Array) -> "Accounts":
        return Accounts(*(column[rows] for column in vars(self).values()))

    def chunks(self) -> Iterator["Accounts"]:
        """Parts of bounded size, in their order; at least one."""
        for start in range(0, max(len(self), 1), CHUNK):
            yield self.part(slice(start, start + CHUNK))


class Parameters(TypedDict):
    """What a night learns from all accounts: a list for each window. JSON, as
    ``AlarmNight.parameters`` keeps it.

    ``movement`` is by region, ``weekly`` by week of the baseline, and the others by size: the mean
    spread of weeks, the dispersion of errors of prediction, and how many accounts that is of.
    """

    movement: list[list[float]]
    weekly: list[list[float]]
    spread: list[list[float]]
    error: list[list[float]]
    accounts: list[list[int]]


def learn(accounts: Accounts) -> Parameters:
    """The parameters of a night, by all accounts of the workspace."""
    parameters = Parameters(movement=[], weekly=[], spread=[], error=[], accounts=[])
    for index in range(len(WINDOWS)):
        _learn_window(accounts, parameters, index)
    return parameters


def judge(accounts: Accounts, parameters: Parameters, usual: Array | None = None) -> Array:
    """``FIGURES`` of each window (rows) of each account (columns).

    *usual* has ``rate``, ``weeks``, and ``burstiness`` for each account: an alarm is judged by the
    baseline that it began with, and not by the weeks before the window. Memory is not bounded here:
    judge ``Accounts.chunks()``.
    """
    figures = np.zeros((len(WINDOWS), len(accounts)), FIGURES)
    if not len(accounts):
        return figures
    for index, own in enumerate(figures):
        own["observed"], own["weeks"], own["rate"] = _sums(accounts, index)
        own["burstiness"] = _spread(accounts, parameters, index) if usual is None else 1
    if usual is not None:
        for name in ("rate", "weeks", "burstiness"):
            figures[name] = usual[name]
    expected = figures["expected"] = _expected(accounts, figures["rate"], parameters, _ALL)
    if usual is None:
        spread, weeks = figures["burstiness"], figures["weeks"]
        figures["burstiness"] = _burstiness(spread, weeks, expected, parameters, _ALL)
    dispersion = figures["dispersion"] = _dispersion(figures, parameters)
    figures["p_nothing"] = no_activity(expected, dispersion)
    figures["p_fall"] = figures["p_rise"] = 1.0
    observed, is_usable = figures["observed"], usable_windows(accounts)
    figures["is_usable"] = is_usable
    low = is_usable & (observed <= FALL_SHARE * expected) & (expected > 0)
    figures["p_fall"][low] = lower_tail(observed[low], expected[low], dispersion[low])
    high = is_usable & (observed >= np.maximum(RISE_SHARE * expected, RISE_LEAST))
    figures["p_rise"][high] = upper_tail(observed[high], expected[high] + 0.5, dispersion[high])
    return figures


def usable_windows(accounts: Accounts) -> Array:
    """Which windows can decide: those with eight weeks before them, and not two weeks of a small
    account, of which every vacation would be an alarm.
    """
    is_old = accounts.ages.astype(np.int64) - _WEEKS_OF[_ALL] >= LEAST_WEEKS
    return np.asarray(is_old & ~((_ALL == 0) & accounts.is_small))


def account_activity(figures: Array, p_on: float) -> Array:
    """Whether a full stop of each account could be told: ``DECIDABLE``, ``TOO_QUIET`` if no window
    without any activity would be below *p_on*, or ``TOO_NEW``; uint8.
    """
    is_telling = (figures["is_usable"] & (figures["p_nothing"] < p_on)).any(axis=0)
    is_new = ~figures["is_usable"].any(axis=0)
    return np.where(is_new, TOO_NEW, np.where(is_telling, DECIDABLE, TOO_QUIET)).astype(np.uint8)


def _learn_window(accounts: Accounts, parameters: Parameters, index: int) -> None:
    observed, weeks, rates = _by_chunk(accounts, 3, lambda part, _: _sums(part, index))
    is_old = weeks >= LEAST_WEEKS
    movement = _movement(observed, rates, WINDOWS[index], is_old, accounts.regions)
    parameters["movement"].append(movement)
    parameters["weekly"].append(_weekly_movement(accounts, index))
    (spread,) = _by_chunk(accounts, 1, lambda part, _: _spread(part, parameters, index))

    def sizes_of(part: Accounts, rows: slice) -> Array:
        expected = _expected(part, rates[rows], parameters, index)
        teaches = is_old[rows] & (expected >= LEAST_ERROR_EXPECTED)
        return np.where(teaches, _sizes(expected), SIZES)

    def errors_of(part: Accounts, rows: slice) -> tuple[Array, Array]:
        expected = _expected(part, rates[rows], parameters, index)
        burstiness = _burstiness(spread[rows], weeks[rows], expected, parameters, index)
        variance = np.maximum(expected, LEAST_ERROR_EXPECTED) * _growth(weeks[rows], index)
        errors = (observed[rows] - expected) ** 2 / (variance * burstiness)
        is_usable = usable_windows(part)[index]
        return np.where(is_usable, sizes[rows], SIZES), errors / _growth_within_size(expected)

    (sizes,) = _by_chunk(accounts, 1, sizes_of)
    own = [np.minimum(spread[sizes == size], GREATEST_SPREAD) for size in range(SIZES)]
    parameters["spread"].append([float(s.mean()) if s.any() else 1.0 for s in own])
    sizes, errors = _by_chunk(accounts, 2, errors_of)
    own = [errors[sizes == size] for size in range(SIZES)]
    # The third quartile decides: accounts that really changed move it little.
    quartiles = [float(np.quantile(e, QUARTILE)) if len(e) else 0.0 for e in own]
    parameters["error"].append([quartile / NORMAL_QUARTILE**2 for quartile in quartiles])
    parameters["accounts"].append([len(e) for e in own])


def _by_chunk(accounts: Accounts, columns: int, compute: Callable[[Accounts, slice], Any]) -> Array:
    """Columns with an entry for each account, as float32. *compute* takes a chunk and its rows: of
    a million accounts, each step of a formula would take 8 MB."""
    result = np.empty((columns, len(accounts)), np.float32)
    start = 0
    for part in accounts.chunks():
        rows = slice(start, start + len(part))
        result[:, rows] = compute(part, rows)
        start = rows.stop
    return result


def _baseline(accounts: Accounts, index: int) -> tuple[Array, Array]:
    """User-days of the weeks before the window, 0 in those that do not count, and how many do."""
    start = WINDOWS[index]
    numbers = np.clip(accounts.ages.astype(np.float64) - start, 0, BASELINE_WEEKS)
    is_within = np.arange(BASELINE_WEEKS) < numbers[:, None]
    return accounts.weeks[:, start : start + BASELINE_WEEKS] * is_within, numbers


def _sums(accounts: Accounts, index: int) -> tuple[Array, Array, Array]:
    """User-days in the window, weeks of the baseline, and user-days a week in it."""
    observed = accounts.weeks[:, : WINDOWS[index]].sum(axis=1, dtype=np.float64)
    baseline, numbers = _baseline(accounts, index)
    return observed, numbers, baseline.sum(axis=1, dtype=np.float64) / np.maximum(numbers, 1)


def _movement(
    observed: Array, rates: Array, window: int, is_old: Array, regions: Array
) -> list[float]:
    """The median ratio of present to usual activity by region, shrunk to the one of all: a large
    account that leaves must not lower what is expected of others, as in a ratio of sums it would.
    """
    teaches = is_old & (rates * window >= MOVEMENT_LEAST_EXPECTED)
    ratios, regions = observed[teaches] / (rates[teaches] * window), regions[teaches]
    common = _median(ratios)
    movement = []
    for region in range(REGIONS):
        own = ratios[regions == region]
        share = len(own) / (len(own) + REGION_PRIOR) if len(own) >= REGION_LEAST_ACCOUNTS else 0.0
        median = max(float(np.median(own)), LEAST_MOVEMENT) if share else 1.0
        movement.append(max(median**share * common ** (1 - share), LEAST_MOVEMENT))
    return movement


def _median(ratios: Array) -> float:
    return float(np.median(ratios)) if len(ratios) >= MOVEMENT_LEAST_ACCOUNTS else 1.0


def _weekly_movement(accounts: Accounts, index: int) -> list[float]:
    """The median ratio of each week of the baseline to the mean week, of a sample of accounts."""
    sample = accounts.part(slice(None, None, len(accounts) // WEEKLY_SAMPLE + 1))
    baseline, numbers = _baseline(sample, index)
    rates = baseline.mean(axis=1)
    teaches = (rates >= MOVEMENT_LEAST_EXPECTED) & (numbers == BASELINE_WEEKS)
    ratios = baseline[teaches] / rates[teaches, None]
    if len(ratios) < MOVEMENT_LEAST_ACCOUNTS:
        return [1.0] * BASELINE_WEEKS
    return [float(median) for median in np.median(ratios, axis=0)]


def _spread(accounts: Accounts, parameters: Parameters, index: int) -> Array:
    """The variance of each account's weeks around its usual one, divided by that."""
    baseline, numbers = _baseline(accounts, index)
    rates = baseline.sum(axis=1) / np.maximum(numbers, 1)
    errors = baseline - rates[:, None] * np.array(parameters["weekly"][index])
    errors[np.arange(BASELINE_WEEKS) >= numbers[:, None]] = 0
    freedom = np.maximum(numbers - 1, 1) * np.maximum(rates, LEAST_WEEKLY_RATE)
    return np.asarray(np.square(errors, out=errors).sum(axis=1) / freedom)


def _burstiness(
    spread: Array, weeks: Array, expected: Array, parameters: Parameters, index: Any
) -> Array:
    """How many times the spread of accounts of its size an account has; at least 1, and nearer to 1
    the fewer weeks tell.
    """
    ratio = spread / np.array(parameters["spread"])[index, _sizes(expected)]
    freedom = np.maximum(weeks - 1, 0)
    ratio = (BURSTINESS_PRIOR + freedom * ratio) / (BURSTINESS_PRIOR + freedom)
    return np.asarray(np.maximum(ratio, 1))


def _sizes(expected: Array) -> Array:
    return np.searchsorted(SIZE_BOUNDS, expected, side="right")


def _growth(weeks: Array, index: Any) -> Array:
    """How much larger the variance is, because what is usual is itself an estimate."""
    return np.asarray(1 + _WEEKS_OF[index] / np.maximum(weeks, 1))


def _expected(accounts: Accounts, rates: Array, parameters: Parameters, index: Any) -> Array:
    movement = np.array(parameters["movement"])[index, accounts.regions]
    return np.asarray(rates * _WEEKS_OF[index] * movement)


def _dispersion(figures: Array, parameters: Parameters) -> Array:
    """The variance of each window over its mean: what accounts of this size taught, with a prior
    for products of few accounts.
    """
    sizes = _sizes(figures["expected"])
    numbers = np.array(parameters["accounts"])[_ALL, sizes]
    errors = numbers * np.array(parameters["error"])[_ALL, sizes]
    prior = DISPERSION_PRIOR * _usual_dispersion(SIZE_MIDDLES[sizes])
    factor = (errors + prior) / (numbers + DISPERSION_PRIOR) * figures["burstiness"]
    factor *= _growth_within_size(figures["expected"])
    dispersion = np.maximum(factor, LEAST_FACTOR) * _growth(figures["weeks"], _ALL)
    return np.asarray(np.maximum(dispersion, LEAST_DISPERSION))


def _usual_dispersion(expected: Array) -> Array:
    """Before anything is learnt. Good and bad weeks of a large account outweigh its users'."""
    return np.asarray(1.5 + 0.01 * expected)


def _growth_within_size(expected: Array) -> Array:
    """A size has accounts of very different expectations: how much more one of them disperses than
    the account that stands for it."""
    middle = SIZE_MIDDLES[_sizes(expected)]
    return np.asarray(_usual_dispersion(expected) / _usual_dispersion(middle))
