"""Where a secret could be that is in no page: in rows, dumps, logs, and representations."""

from collections.abc import Iterable, Sequence

import pytest
from django.core.management import call_command
from django.db import connection, models
from django.test import Client
from django.urls import reverse


class Secrets:
    """What must be nowhere, and who looks for it."""

    def __init__(self, *secrets: str) -> None:
        self.secrets = secrets

    def among(self, text: str) -> list[str]:
        return [secret for secret in self.secrets if secret in text]

    def on_pages(self, client: Client, pages: Iterable[str]) -> list[str]:
        """Those of the pages that show one, and of those that list what happened in all places."""
        common = [reverse(f"admin:{name}") for name in ("index", "jobs")]
        common.append(reverse("admin:engagement_trailentry_changelist"))
        pages_with = []
        for page in (*pages, *common):
            answer = client.get(page, follow=True)
            assert answer.status_code == 200, page
            if self.among(answer.content.decode()):
                pages_with.append(page)
        return pages_with

    def in_files(
        self,
        app: str,
        caplog: pytest.LogCaptureFixture,
        capsys: pytest.CaptureFixture[str],
        rows: Sequence[models.Model],
    ) -> list[str]:
        """Those in logs, in a dump of the app, in any row, and where the rows are printed."""
        call_command("dumpdata", app, use_base_manager=True)
        output = capsys.readouterr()
        assert f'"model": "{app}.' in output.out
        texts = (output.out, output.err, caplog.text, _whole_database(), repr(rows))
        return self.among("\n".join(texts))


def _whole_database() -> str:
    """Each row of each table, as a backup has it."""
    with connection.cursor() as cursor:
        tables = connection.introspection.table_names(cursor)
        texts = []
        for table in tables:
            cursor.execute(f'SELECT t::text FROM "{table}" AS t')
            texts += [text for (text,) in cursor.fetchall()]
    return "\n".join(texts)
