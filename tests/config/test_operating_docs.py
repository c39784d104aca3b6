"""docs/operating.md names the metrics that ``/metrics`` serves."""

import re

import pytest
from django.conf import settings
from django.test import Client, override_settings

# Without the name of the restored database.
METRIC = re.compile(r"\beds_(?!restored)[a-z_]+\b")


@pytest.mark.django_db
@override_settings(METRICS_TOKEN="scrape")
def test_every_metric_of_the_document_exists(client: Client) -> None:
    response = client.get("/metrics", headers={"Authorization": "Bearer scrape"}).content.decode()
    names = set(METRIC.findall((settings.BASE_DIR / "docs" / "operating.md").read_text()))
    assert names
    assert [name for name in sorted(names) if name not in response] == []
