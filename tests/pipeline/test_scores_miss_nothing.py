"""What is recorded while its user's scores are computed is scored by the next rescoring."""

import pytest
from django.db import transaction

from engagement.models import Product, UserEngagement
from engagement.rescoring import rescore
from tests.engagement.history import NOON, identify, tell, track
from tests.pipeline.waiting import at_once


@pytest.mark.django_db(transaction=True)
def test_an_event_recorded_while_its_user_is_introduced_is_scored(acme: Product) -> None:
    tell(acme, track("ada"))
    with transaction.atomic():
        # This worker still sees a stranger. Another one introduces her, and a third one works
        # off the mark of that before this worker commits.
        tell(acme, track("ada"))
        at_once(lambda: tell(acme, identify("ada")))
        at_once(lambda: rescore.rescore(NOON))
    rescore.rescore(NOON)
    assert UserEngagement.objects.get().event_count == 2
