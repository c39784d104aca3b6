"""How long the match report takes, and the overview of a product with its checklist: 1,000,000
accounts with 3,000,000 users by default, and a license for a tenth of them. The 2,000 accounts with
the highest scores, which are compared, are sent as hostnames of sites with a license.
"""

import argparse
from functools import partial
from typing import LiteralString

from benchmarks import activation, nights, pages
from benchmarks.reading import in_turn, kept_service
from harness.command import run_command
from harness.processes import Failed
from harness.report import Report, Result, progress

_PLANT: tuple[LiteralString, ...] = (
    """
    UPDATE engagement_account SET external_id = 'site-' || id || '.example.net'
    WHERE product_id = %(product)s AND id = ANY(ARRAY(
        SELECT account_id FROM engagement_accountengagement WHERE product_id = %(product)s
        ORDER BY raw DESC, account_id DESC LIMIT 2000))
    """,
    """
    INSERT INTO marketplace_license (product_id, key, cloud_id, fields, digest, run_id)
    SELECT product_id, 'E-' || id, md5(id::text)::uuid,
           jsonb_build_object('status', 'active', 'cloudSiteHostname', external_id), '', 1
    FROM engagement_account
    WHERE product_id = %(product)s AND (id %% 10 = 3 OR external_id LIKE 'site-%%')
    ON CONFLICT DO NOTHING
    """,
    # The accounts that the sync has created.
    """
    INSERT INTO engagement_account (product_id, external_id, traits, trait_stamps, is_identified,
                                    first_seen_at, last_seen_at)
    SELECT product_id, cloud_id,
           jsonb_build_object('am.cloudSiteHostname', fields->>'cloudSiteHostname'), '{}', true,
           now(), now()
    FROM marketplace_license WHERE product_id = %(product)s
    ON CONFLICT DO NOTHING
    """,
    """
    INSERT INTO marketplace_connection (product_id, state, state_reason, state_changed_at,
        generation, user_name, vendor_id, app_product_id, developer_id, app_name, app_key,
        last_success_at, last_error)
    VALUES (%(product)s, 'disconnected', '', now(), 1, '', '', gen_random_uuid(), '', 'App', '',
            now(), '')
    ON CONFLICT DO NOTHING
    """,
    """
    UPDATE engagement_scoreset SET scored_day = (now() AT TIME ZONE 'UTC')::date
    WHERE product_id = %(product)s AND state = 'current'
    """,
    "VACUUM ANALYZE engagement_account, marketplace_license",
)


def measure(options: argparse.Namespace) -> Report:
    make = partial(activation.fill, accounts=options.accounts, users=options.users)
    with kept_service(options.keep, make) as (service, product):
        progress("Planting licenses.")
        database = service.connect()
        for statement in _PLANT:
            parameters = {"product": product["product_id"]} if "%" in statement else None
            database.execute(statement, parameters)
        # Of a large product, pages show what the background has found.
        for job in ("count segments", "what changed"):
            pages.run_night(service, job)
        person = pages.log_in(service, "web")
        addresses = {
            "overview with its checklist": "/admin/",
            "match report": f"/admin/licenses/matching/?product={product['product_id']}",
        }
        for name, text in zip(addresses, ("look like Cloud IDs", "site-"), strict=True):
            if text not in person.client.read(addresses[name]).decode():
                raise Failed(f"The {name} does not say what it should.")
        read = {name: (person.client, path) for name, path in addresses.items()}
        for name, milliseconds in in_turn(read, nights.ROUNDS).items():
            yield Result(f"{name}, seconds", milliseconds / 1000, at_most=pages.SECONDS)


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, activation.arguments, measure)
