"""Says on an account's page how many licenses it has, and why one of them gives it its traits."""

from engagement.models import Account
from marketplace.licenses.conversion import best_key
from marketplace.licenses.record_fields import Fields
from marketplace.models import License

# Nobody has more sites' licenses than that on one account; a longer list is not compared.
MAX_COMPARED = 1000
# What decides between two licenses, in this order.
_LABELS = {
    "status": "status",
    "licenseType": "license type",
    "installedOnSandbox": "sandbox",
    "maintenanceEndDate": "end of maintenance",
    "lastUpdated": "last update",
}


def license_note(account: Account) -> str:
    """The number of the account's licenses, and which one counts; "" without any."""
    stored = License.objects.filter(product=account.product_id, cloud_id=account.external_id)
    compared = list(stored.values_list("key", "fields", "unlisted_since")[:MAX_COMPARED])
    rows: dict[str, Fields] = {key: fields for key, fields, _ in compared}
    unlisted = {key for key, _, since in compared if since is not None}
    if not rows:
        return ""
    best = best_key(rows, unlisted)
    if len(rows) == 1:
        return f"This account has one license: {best}."
    others = {key: fields for key, fields in rows.items() if key != best}
    second = best_key(others, unlisted)
    if second in unlisted and best not in unlisted:
        reason = f"{second} is no longer listed"
    else:
        reason = _reason(rows[best], second, others[second])
    return f"This account has {len(rows):,} licenses. {best} gives it these traits: {reason}."


def _reason(best: Fields, second: str, other: Fields) -> str:
    """Why *best* counts and not the *other* license, whose key is *second*."""
    for name, label in _LABELS.items():
        alone = {"a": {name: other.get(name)}, "b": {name: best.get(name)}}
        # A tie goes to the first key.
        if best_key(alone) == "b":
            ours, theirs = (fields.get(name) or "missing" for fields in (best, other))
            return f"its {label} is {ours}, and that of {second} is {theirs}"
    return f"it is like {second}, and its number comes first"
