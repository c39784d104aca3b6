"""Turns examples into what the ledger knows of their licenses, in one order or another."""

import hashlib
from dataclasses import replace
from random import Random
from typing import TypeVar

import msgspec

from marketplace.ledger.inputs import LicenseInputs, Observation
from marketplace.ledger.vocabulary import Event
from tests.marketplace.ledger.examples import Example, ExampleLicense, Row, day

Item = TypeVar("Item")
_FACTS = ("installedOnSandbox", "evaluationLicense", "evaluationSaleDate")


def inputs_of(example: Example) -> dict[str, LicenseInputs]:
    return {
        name: _inputs(name, license, example.has_history)
        for name, license in example.licenses.items()
    }


def _inputs(name: str, license: ExampleLicense, has_history: bool) -> LicenseInputs:
    facts = {
        fact: row.fields[fact] for row in license.rows for fact in _FACTS if fact in row.fields
    }
    fields = [row.fields for row in license.rows]
    links = {f"site:{row['cloudId']}" for row in fields} | {f"id:{name}"}
    links |= {
        f"purchaser:{account}" for row in fields if (account := row.get("transactionAccountId"))
    }
    links |= {f"id:{trial}" for row in fields if (trial := row.get("evaluationLicense"))}
    return LicenseInputs(
        name,
        tuple(observation(row, has_history) for row in license.rows),
        license.transactions,
        license.feedback,
        frozenset({name}),
        facts,
        frozenset(links),
        license.listings,
        has_history=has_history,
    )


def observation(row: Row, is_history: bool = True) -> Observation:
    fields = {name: value for name, value in row.fields.items() if name not in _FACTS}
    fields.pop("transactionAccountId", None)
    digest = hashlib.blake2b(msgspec.json.encode(fields, order="sorted")).hexdigest()
    return Observation(row.seen, row.seen, row.seen, digest, fields, is_history)


def shuffled(inputs: LicenseInputs, random: Random) -> LicenseInputs:
    """The same, in another order, and some of it twice."""

    return replace(
        inputs,
        observations=_mixed(inputs.observations, random),
        transactions=_mixed(inputs.transactions, random),
        feedback=_mixed(inputs.feedback, random),
        listings=tuple(sorted(set(_mixed(inputs.listings, random)))),
    )


def _mixed(items: tuple[Item, ...], random: Random) -> tuple[Item, ...]:
    repeated = [*items, *random.choices(items, k=random.randrange(4))] if items else []
    random.shuffle(repeated)
    return tuple(repeated)


def summary(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.date.isoformat(), event.type.value) for event in events]


def expected(license: ExampleLicense) -> list[tuple[str, str]]:
    return sorted((day(event[0]).isoformat(), event[1]) for event in license.events)
