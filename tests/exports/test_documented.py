"""The program of docs/exports.md, which merges runs, leads to what a complete run has."""

import re
from pathlib import Path
from typing import Any

from django.conf import settings

from engagement.models import Product
from engagement.rescoring.rescore import rescore
from exports.models import Extent, Table
from tests.engagement.history import NOON, group, tell
from tests.exports.rows import an_export, run_now
from tests.exports.test_runs import some_history
from tests.notifications.rows import Clock

DOCUMENT = Path(settings.BASE_DIR) / "docs" / "exports.md"


def test_the_documented_program_merges_runs(acme: Product, folder: Path, clock: Clock) -> None:
    [code] = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    some_history(acme)
    fields = {"tables": [Table.ACCOUNTS], "extent": Extent.CHANGES}
    changes = an_export(acme, **fields)
    merged: dict[str, dict[str, str]] = {}
    for expected in ("complete", "changes"):
        run = run_now(changes, clock)
        assert run.extent == expected
        names["load"](next(folder.glob(f"*/warehouse/{run.folder}")), merged)
        changes.refresh_from_db()
        tell(acme, group("late", name="Later than the others"), group("comma", seats=4))
        rescore(NOON)
    last = run_now(changes, clock)
    names["load"](next(folder.glob(f"*/warehouse/{last.folder}")), merged)
    whole: dict[str, dict[str, str]] = {}
    run = run_now(an_export(acme, name="Whole", tables=[Table.ACCOUNTS]), clock)
    names["load"](next(folder.glob(f"*/warehouse/{run.folder}")), whole)
    assert merged == whole
    assert "Later than the others" in {row["name"] for row in merged.values()}
