"""What an estimate is: never a number without its interval and its count."""

import msgspec


class Estimate(msgspec.Struct, frozen=True):
    """A number with its 95% interval, and the number of outcomes that it comes from."""

    value: float
    low: float
    high: float
    outcomes: int

    @property
    def percent_range(self) -> str:
        """The interval of a share, like "22 to 64%"."""
        low, high = 100 * self.low, 100 * self.high
        digits = 1 if round(low) == round(high) and low < high else 0
        return f"{low:.{digits}f} to {high:.{digits}f}%"

    @property
    def percent(self) -> str:
        """The share, like "43%"."""
        return f"{self.value:.0%}"

    @property
    def number(self) -> str:
        """The number, like "0.71"."""
        return f"{self.value:.2f}".replace("-", "\N{MINUS SIGN}")

    @property
    def number_range(self) -> str:
        """The interval of a number, like "0.64 to 0.78"."""
        nearest = min(abs(self.low), abs(self.high))
        # An interval without 0 does not look as if it had it, unless four digits would, too.
        digits = next((digits for digits in (2, 3, 4) if round(nearest, digits)), 2)
        digits = 2 if self.low <= 0 <= self.high else digits
        return f"{self.low:.{digits}f} to {self.high:.{digits}f}".replace("-", "\N{MINUS SIGN}")
