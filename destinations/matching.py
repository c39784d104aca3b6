"""By what the record of a subject is found: values, and what they must not be."""

from collections.abc import Sequence
from typing import Final

from destinations.models import RecordDestination
from destinations.records import TRACKING_ID, Pair, Record, domain_of, pairs

# A domain that many companies share would link all of their accounts to one record.
_FREE_MAIL = """
    aol.com fastmail.com free.fr freenet.de gmail.com gmx.at gmx.ch gmx.com gmx.de gmx.net
    googlemail.com hey.com hotmail.com hotmail.co.uk hotmail.fr icloud.com inbox.com laposte.net
    libero.it live.com mac.com mail.com mail.ru me.com msn.com naver.com orange.fr outlook.com
    outlook.de pm.me proton.me protonmail.com qq.com rambler.ru sina.com t-online.de tutanota.com
    wanadoo.fr web.de yahoo.com yahoo.co.jp yahoo.co.uk yahoo.de yahoo.fr yandex.com yandex.ru
    ymail.com zoho.com 126.com 163.com
"""
FREE_MAIL: Final = frozenset(_FREE_MAIL.split())


def match_pairs(destination: RecordDestination) -> list[Pair]:
    """The pairs by which records are found, in their order: first our own id, if a field has it."""
    own = [Pair(TRACKING_ID, destination.id_field)] if destination.id_field else []
    return [*own, *pairs(destination.match)]


def match_values(
    record: Record, of_pairs: Sequence[Pair], domain_fields: frozenset[str]
) -> list[str]:
    """The record's value for each of the pairs; empty if it has none that may be looked for."""
    return [
        record.external_id
        if pair.source == TRACKING_ID
        else _value(record, pair, pair.field in domain_fields)
        for pair in of_pairs
    ]


def _value(record: Record, pair: Pair, is_domain: bool) -> str:
    value = record.sources[pair.source]
    text = "" if value is None else str(value).strip()
    if not is_domain:
        return text
    host = domain_of(text)
    return "" if host in FREE_MAIL else host
