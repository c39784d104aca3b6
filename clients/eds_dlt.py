"""Loads accounts and users of the engagement data service with dlt, and then only what changed.

    pip install "dlt[duckdb]"
    export EDS_URL=https://eds.example.com EDS_TOKEN=eds_…
    python eds_dlt.py

Needs Python 3.10 or later. Copy this file, and give ``engagement()`` to a pipeline of your own:

    pipeline = dlt.pipeline("engagement", destination="duckdb", dataset_name="eds")
    load(pipeline, engagement(url, token, workspace_id=1))

The first run loads everything. Each later one loads who changed since, and deletes who is gone:
forgotten users and those that were joined to another user. If the service can no longer say what
changed, for example because its workspace was scored again, ``load()`` loads everything anew.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import dlt
from dlt.common.pipeline import LoadInfo
from dlt.pipeline.exceptions import PipelineStepFailed
from dlt.sources.helpers.rest_client import RESTClient
from dlt.sources.helpers.rest_client.auth import BearerTokenAuth

RESOURCES = ("accounts", "users")
PAGE = 500


class StartAgain(Exception):
    """What changed since the last run is no longer known."""


@dlt.source(name="engagement", max_table_nesting=0)
def engagement(
    url: str, token: str, workspace_id: int, resources: Sequence[str] = RESOURCES
) -> Any:
    """The accounts and users of a workspace, with their scores and traits."""
    client = RESTClient(url, auth=BearerTokenAuth(token))
    for name in resources:
        yield dlt.resource(
            _changes,
            name=name,
            primary_key="id",
            write_disposition="merge",
            columns={
                "deleted": {"data_type": "bool", "hard_delete": True},
                "traits": {"data_type": "json"},
            },
        )(client, name, workspace_id)


def _changes(client: RESTClient, name: str, workspace_id: int) -> Iterator[list[dict[str, Any]]]:
    """The records that changed since the last run, a page at a time."""
    state = dlt.current.resource_state()
    address = state.get("changes") or (
        f"/v2/{name}?workspace_id={workspace_id}&expand=traits&changed_since=start&limit={PAGE}"
    )
    while address:
        url = address if "://" in address else client.base_url.rstrip("/") + address
        # Its session pauses and repeats after 429 and 503.
        response = client.session.get(url, auth=client.auth)
        page = response.json()
        if response.status_code == 400 and page["error"]["code"] == "invalid_cursor":
            raise StartAgain
        response.raise_for_status()
        yield [
            *({**record, "deleted": False} for record in page["data"]),
            *({"id": id, "deleted": True} for id in page["deleted"]),
        ]
        links = page["_links"]
        # The state is stored with the data, so a run that fails begins where the last one ended.
        state["changes"] = links.get("changes") or state.get("changes")
        address = links.get("next")


def load(pipeline: dlt.Pipeline, source: Any) -> LoadInfo:
    """Run the pipeline, anew if the service cannot say what changed since the last run."""
    if pipeline.has_pending_data:
        # What a run had read that died. With it, dlt reads nothing new.
        pipeline.run()
    try:
        return pipeline.run(source)
    except PipelineStepFailed as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, StartAgain):
            cause = cause.__cause__ or cause.__context__
        if cause is None:
            raise
        pipeline.drop_pending_packages()
        return pipeline.run(source, refresh="drop_resources")


def main() -> None:
    url, token = os.environ.get("EDS_URL"), os.environ.get("EDS_TOKEN")
    if not url or not token:
        sys.exit("Set EDS_URL and EDS_TOKEN.")
    workspace_id = int(os.environ.get("EDS_WORKSPACE", "1"))
    pipeline = dlt.pipeline("engagement", destination="duckdb", dataset_name="eds")
    print(load(pipeline, engagement(url, token, workspace_id)))


if __name__ == "__main__":
    main()
