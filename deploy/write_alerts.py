"""Writes deploy/alerts.yml from the table in docs/alerts.md: ``python deploy/write_alerts.py``."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE, RULES = ROOT / "docs" / "alerts.md", ROOT / "deploy" / "alerts.yml"
ROW = re.compile(
    r"^\| \[(?P<alert>\w+)\]\(#(?P<anchor>\w+)\) \| `(?P<expr>.+)` \| (?P<wait>\w+) "
    r"\| (?P<severity>\w+) \|$",
    re.MULTILINE,
)
HEAD = """\
# Alerts for Prometheus. `python deploy/write_alerts.py` writes this file from docs/alerts.md.
groups:
  - name: engagement-data-service
    rules:
"""
RULE = """\
      - alert: {alert}
        expr: '{expr}'
        for: {wait}
        labels:
          severity: {severity}
        annotations:
          summary: '{summary}'
          runbook: 'docs/alerts.md#{anchor}'
"""


def rules() -> str:
    """The rules of the table, with the first sentence of each alert's section."""
    text = TABLE.read_text()
    parts = [HEAD]
    for row in ROW.finditer(text):
        # A table's cell cannot hold a plain bar, and YAML's quotes double a quote.
        expression = row["expr"].replace("\\|", "|").replace("'", "''")
        section = text.split(f"\n## {row['alert']}\n\n")[1]
        summary = section.split(". ")[0].split(".\n")[0].replace("'", "''").replace("`", "")
        fields = row.groupdict() | {"expr": expression, "summary": f"{summary}."}
        parts.append(RULE.format(**fields))
    return "".join(parts)


if __name__ == "__main__":
    RULES.write_text(rules())
