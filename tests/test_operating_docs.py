"""What docs/operating.md asks Prometheus for is what ``/metrics`` answers."""

import re

import pytest
from django.conf import settings
from django.test import Client, override_settings

# Not the database's name in the example of a restore.
METRIC = re.compile(r"\beds_(?!restored)[a-z_]+\b")


@pytest.mark.django_db
@override_settings(METRICS_TOKEN="scrape")
def test_alerts_use_metrics_that_there_are(client: Client) -> None:
    answer = client.get("/metrics", headers={"Authorization": "Bearer scrape"}).content.decode()
    named = set(METRIC.findall((settings.BASE_DIR / "docs" / "operating.md").read_text()))
    assert named
    assert [name for name in sorted(named) if name not in answer] == []
