"""What the chances of a workspace add up to. A look computes it once: a product without licenses
may have a chance of each of a million accounts."""

from datetime import date, timedelta
from typing import LiteralString

from core.database import sql
from engagement.models import Workspace
from outcomes.chances.cases import AGES
from outcomes.chances.results import Totals
from outcomes.kinds import Kind
from outcomes.sources import licenses
from outcomes.statistics.normal import Z

# The chances of one model err together, so their margins add up.
_SUMS: LiteralString = """
    SELECT count(*), count(*) FILTER (WHERE NOT is_share), COALESCE(sum(chance), 0),
        COALESCE(sum(chance * (1 - chance)), 0), COALESCE(sum(high - low) / 2, 0)
    FROM engagement_accountchance
    WHERE product_id = %(product)s AND workspace_id = %(workspace)s AND kind = %(kind)s
"""
_OPEN: LiteralString = """
    SELECT count(DISTINCT license),
        count(DISTINCT license) FILTER (WHERE answered_on <= %(today)s),
        count(DISTINCT license) FILTER (WHERE (answered_on IS NULL OR answered_on > %(today)s)
            AND began_on > %(young)s)
    FROM outcomes_licenseoutcome
    WHERE product_id = %(product)s AND kind = %(kind)s AND exclusion = 'open'
      AND known_on IS NULL AND day >= %(today)s
"""


def totals_of(workspace: Workspace, kind: Kind, today: date) -> Totals:
    """What the stored chances of the kind add up to. Of evaluations also how many have none, and
    why."""
    own = {"product": workspace.product_id, "workspace": workspace.pk, "kind": kind.value}
    ((running, learned, expected, variance, margin),) = sql.fetch(_SUMS, own)
    spread = (Z**2 * variance + margin**2) ** 0.5
    open_cases = (0, 0, 0)
    if kind is Kind.EVALUATION and licenses.kinds_of(workspace.product_id):
        young = today - timedelta(days=AGES[kind][0] + 1)
        (open_cases,) = sql.fetch(_OPEN, {**own, "today": today, "young": young})
    every, replied, too_young = open_cases
    return Totals(
        running,
        learned,
        expected,
        max(0.0, expected - spread),
        min(float(running), expected + spread),
        replied,
        too_young,
        max(0, every - replied - too_young - running),
    )
