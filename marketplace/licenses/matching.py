"""Compares the accounts that an app sends with the sites that have a license.

A site and its account meet if the app sends the Cloud ID as the account's id. This module finds
accounts without a license and licenses without usage, and says why they do not meet.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, LiteralString, NamedTuple

from core.database import sql
from engagement.license_traits import FORMER_HOSTNAME_TRAIT, HOSTNAME_TRAIT, LICENSE_PREFIX
from engagement.models import AccountEngagement, ScoreSet
from marketplace.models import License

# Accounts with the highest scores, and sites by their Cloud IDs, which are in no order.
MAX_COMPARED: Final = 2_000
# A larger share of faults deserves a warning.
HIGH_FAULT_SHARE: Final = 0.05


class Reason(StrEnum):
    """Why an account has no license, the surest reasons first."""

    HOSTNAME = "hostname"
    RENAMED = "renamed"
    CAPITALS = "capitals"
    ADDRESS = "address"
    OTHER_PRODUCT = "other_product"
    UNKNOWN_HOSTNAME = "unknown_hostname"
    OTHER_FORM = "other_form"
    UNLICENSED = "unlicensed"


# A Cloud ID of no license is sent as it should be.
FAULTS: Final = [reason for reason in Reason if reason is not Reason.UNLICENSED]


class Silence(StrEnum):
    """Why a licensed site has no usage."""

    SENT_OTHERWISE = "sent_otherwise"
    NO_USERS = "no_users"
    NOTHING = "nothing"


class UnlicensedAccount(NamedTuple):
    """An account without a license. *cloud_id* is the site that it should be, if one is known, and
    *product_id* another product with a license of that site."""

    account_id: int
    external_id: str
    reason: Reason
    cloud_id: str = ""
    product_id: int | None = None


class SilentSite(NamedTuple):
    """A site with a license, whose account has no users."""

    cloud_id: str
    hostname: str
    reason: Silence


@dataclass(frozen=True)
class MatchReport:
    """What was compared: accounts that an app has sent, and sites with a license."""

    accounts: int
    unlicensed: Sequence[UnlicensedAccount]
    sites: int
    silent: Sequence[SilentSite]
    # Whether there are more accounts, and more sites, than were compared.
    is_cut: tuple[bool, bool] = (False, False)

    @property
    def faults(self) -> int:
        """How many accounts have no license because of what the app sends."""
        return sum(account.reason in FAULTS for account in self.unlicensed)

    @property
    def has_many_faults(self) -> bool:
        return self.faults > HIGH_FAULT_SHARE * self.accounts

    @property
    def cloud_ids(self) -> int:
        """How many accounts are sent as a Cloud ID."""
        return self.accounts - sum(not is_cloud_id(each.external_id) for each in self.unlicensed)


def compare(
    score_set: ScoreSet, other_products: Collection[int] = (), limit: int = MAX_COMPARED
) -> MatchReport:
    """Compare the accounts of the scores with the licenses of their product.

    A license of one of the *other_products* explains an account that has none here.
    """
    accounts = _accounts_with_users(score_set, limit + 1)
    unlicensed = _unlicensed(score_set.product_id, dict(accounts[:limit]), other_products)
    licensed = _licensed_sites(score_set.product_id, limit + 1)
    sites = dict(licensed[:limit])
    return MatchReport(
        min(len(accounts), limit),
        unlicensed,
        len(sites),
        _silent(score_set, sites, {account.cloud_id for account in unlicensed}),
        (len(accounts) > limit, len(licensed) > limit),
    )


# --- Accounts without a license -------------------------------------------------------------

_ARI = re.compile(r"ari:cloud:[a-z0-9-]+:[^/]*/")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://")
_UUID = re.compile(r"([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})")
_HOSTNAME = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")


def bare_id(external_id: str) -> str:
    """The Cloud ID or the hostname within the id: in lower case, without a scheme, a resource name,
    a port, a path, and braces."""
    text = external_id.strip().strip("{}").lower()
    text = _SCHEME.sub("", _ARI.sub("", text, count=1), count=1)
    text = re.split(r"[/?#:]", text, maxsplit=1)[0]
    parts = _UUID.fullmatch(text)
    return "-".join(parts.groups()) if parts else text


def is_cloud_id(external_id: str) -> bool:
    """Whether the id has the form of a Cloud ID, as it should be sent."""
    return _UUID.fullmatch(external_id) is not None and bare_id(external_id) == external_id


def _accounts_with_users(score_set: ScoreSet, limit: int) -> list[tuple[str, int]]:
    """The ids of accounts with users, the highest scores first."""
    rows = AccountEngagement.objects.filter(
        product=score_set.product_id, score_set=score_set.pk, total_users__gt=0
    ).order_by("-raw", "-account_id")
    return list(rows.values_list("account__external_id", "account_id")[:limit])


def _unlicensed(
    product_id: int, accounts: Mapping[str, int], other_products: Collection[int]
) -> list[UnlicensedAccount]:
    licensed = _with_license([product_id], accounts)
    bare = {id: bare_id(id) for id in accounts if id not in licensed}
    sites = _with_license([product_id], bare.values())
    hosts = {text for text in bare.values() if _HOSTNAME.fullmatch(text)}
    present, former = _sites_with_hostnames(product_id, hosts - sites.keys())
    others = _with_license(other_products, {*bare, *bare.values()})
    rows = []
    for id, text in bare.items():
        row = UnlicensedAccount(accounts[id], id, Reason.OTHER_FORM)
        wrong_form = Reason.CAPITALS if id.lower() == text else Reason.ADDRESS
        if text in sites:
            row = row._replace(reason=wrong_form, cloud_id=text)
        elif text in present:
            row = row._replace(reason=Reason.HOSTNAME, cloud_id=present[text])
        elif text in former:
            row = row._replace(reason=Reason.RENAMED, cloud_id=former[text])
        elif product := others.get(id) or others.get(text):
            row = row._replace(reason=Reason.OTHER_PRODUCT, product_id=product)
        elif _UUID.fullmatch(text):
            row = row._replace(reason=Reason.UNLICENSED if id == text else wrong_form)
        elif text in hosts:
            row = row._replace(reason=Reason.UNKNOWN_HOSTNAME)
        rows.append(row)
    return rows


# As arrays: a text with thousands of values takes longer to plan than to run.
_LICENSED: LiteralString = """
    SELECT l.cloud_id, l.product_id
    FROM unnest(%(cloud_ids)b::text[]) AS k(cloud_id)
    JOIN marketplace_license l
      ON l.cloud_id = k.cloud_id AND l.product_id = ANY(%(products)b::bigint[])
"""


def _with_license(products: Collection[int], cloud_ids: Iterable[str]) -> dict[str, int]:
    """Those of the Cloud IDs that a license of the products has, each with the product."""
    ids = sorted({*cloud_ids} - {""})
    if not ids or not products:
        return {}
    rows = sql.fetch(_LICENSED, {"cloud_ids": ids, "products": list(products)})
    return {row[0]: row[1] for row in rows}


# Each host takes two steps in the index of traits.
_HOSTS: LiteralString = f"""
    SELECT h.host, a.external_id, a.traits->>%(present)s = h.host
    FROM unnest(%(hosts)b::text[]) AS h(host)
    JOIN engagement_account a
      ON a.product_id = %(product)s
     AND (a.traits @> jsonb_build_object(%(present)s::text, h.host)
          OR a.traits @> jsonb_build_object(%(former)s::text, h.host))
    WHERE {sql.on_node("a")}
"""


def _sites_with_hostnames(
    product_id: int, hosts: Collection[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """The licensed sites that have these hostnames now, and those that had them before."""
    if not hosts:
        return {}, {}
    names = {"present": HOSTNAME_TRAIT, "former": FORMER_HOSTNAME_TRAIT}
    rows = sql.fetch(_HOSTS, {"product": product_id, "hosts": sorted(hosts), **names})
    # An app may send the trait, too: only an account with a license counts.
    licensed = _with_license([product_id], (cloud_id for _, cloud_id, _ in rows))
    present, former = dict[str, str](), dict[str, str]()
    for host, cloud_id, is_present in rows:
        if cloud_id in licensed:
            (present if is_present else former)[host] = cloud_id
    return present, former


# --- Sites without usage --------------------------------------------------------------------


def _licensed_sites(product_id: int, limit: int) -> list[tuple[str, str]]:
    """The Cloud IDs and the hostnames of sites whose license is listed and not inactive."""
    rows = License.objects.filter(product=product_id, cloud_id__gt="", unlisted_since=None)
    rows = rows.exclude(fields__status__iexact="inactive").order_by("cloud_id")
    sites = rows.values_list("cloud_id", "fields__cloudSiteHostname")[:limit]
    return [(cloud_id, str(hostname or "")) for cloud_id, hostname in sites]


_USE: LiteralString = f"""
    SELECT a.external_id, coalesce(e.total_users, 0) > 0,
           EXISTS (SELECT FROM jsonb_object_keys(a.traits) AS t(name)
                   WHERE NOT starts_with(t.name, %(prefix)s))
    FROM unnest(%(cloud_ids)b::text[]) AS k(external_id)
    JOIN engagement_account a ON a.product_id = %(product)s AND a.external_id = k.external_id
    LEFT JOIN engagement_accountengagement e
      ON e.product_id = a.product_id AND e.score_set_id = %(score_set)s AND e.account_id = a.id
    WHERE {sql.on_node("a")}
"""


def _silent(
    score_set: ScoreSet, sites: Mapping[str, str], sent_otherwise: Collection[str]
) -> list[SilentSite]:
    parameters: dict[str, Any] = {"product": score_set.product_id, "score_set": score_set.pk}
    parameters |= {"cloud_ids": sorted(sites), "prefix": LICENSE_PREFIX}
    use = {cloud_id: states for cloud_id, *states in sql.fetch(_USE, parameters)}
    silent = []
    for cloud_id, hostname in sites.items():
        has_users, has_traits = use.get(cloud_id, (False, False))
        if not has_users:
            reason = Silence.NO_USERS if has_traits else Silence.NOTHING
            reason = Silence.SENT_OTHERWISE if cloud_id in sent_otherwise else reason
            silent.append(SilentSite(cloud_id, hostname, reason))
    return silent
