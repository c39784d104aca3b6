"""What a failed attempt made is given back before the next one, though the collector is paused."""

import gc
import weakref
from collections.abc import Sequence

import pytest
from django.db import DataError

from core.garbage import pause_gc
from ingestion.drain.batches import process_or_split


class Large:
    """What recording makes of a batch."""


@pytest.mark.django_db
def test_no_attempt_holds_what_an_earlier_one_made() -> None:
    references: list[weakref.ref[Large]] = []
    counts: list[int] = []

    def settle(batch: Sequence[int]) -> None:
        counts.append(sum(reference() is not None for reference in references))
        large = Large()
        references.append(weakref.ref(large))
        try:
            raise ValueError(large)
        except ValueError as cause:
            # The error is a variable of a frame that the error holds, as in the driver.
            error = DataError("too large")
            raise error from cause

    set_aside: list[int] = []
    with pause_gc():
        process_or_split(range(8), settle, lambda item, error: set_aside.append(item))
        assert not gc.isenabled()
    assert set_aside == list(range(8))
    assert counts == [0] * 15
