"""The program of docs/exports.md, which merges runs, leads to what a complete run has."""

import re
from pathlib import Path
from typing import Any

from django.conf import settings

from engagement.models import Product
from engagement.rescoring.rescore import rescore
from exports.models import Extent, ScheduledExport, Table
from tests.engagement.history import NOON, group, tell
from tests.exports.rows import an_export, run_now
from tests.exports.test_runs import some_history
from tests.notifications.rows import Clock

DOCUMENT = Path(settings.BASE_DIR) / "docs" / "exports.md"


def test_the_documented_program_merges_runs(acme: Product, folder: Path, clock: Clock) -> None:
    [code] = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    program: dict[str, Any] = {}
    exec(code, program)

    def load(export: ScheduledExport, accounts: dict[str, dict[str, str]]) -> bool:
        """Run the export, and load what it wrote. Returns whether that was complete."""
        export.refresh_from_db()
        run = run_now(export, clock)
        program["load"](next(folder.glob(f"*/{export.folder}/{run.folder}")), accounts)
        return run.since is None

    some_history(acme)
    changes = an_export(acme, tables=[Table.ACCOUNTS], extent=Extent.CHANGES)
    merged: dict[str, dict[str, str]] = {}
    assert load(changes, merged)
    tell(acme, group("late", name="Later than the others"), group("comma", seats=4))
    rescore(NOON)
    assert not load(changes, merged)
    complete: dict[str, dict[str, str]] = {}
    assert load(an_export(acme, name="Whole", tables=[Table.ACCOUNTS]), complete)
    assert merged == complete
    assert "Later than the others" in {row["name"] for row in merged.values()}
