"""Loads the workspace with clients/eds_dlt.py into the folder in which it runs, and prints what is
there.

Arguments: the folder of the source, the service's address, the read token, the workspace's id, and
the step after which the process dies, if it dies.
"""

import json
import os
import signal
import sys

import dlt


def main(folder: str, address: str, token: str, workspace_id: str, last_step: str = "") -> None:
    sys.path.insert(0, folder)
    from eds_dlt import engagement, load

    pipeline = dlt.pipeline(
        "engagement", destination="duckdb", dataset_name="eds", pipelines_dir="pipelines"
    )
    source = engagement(address, token, int(workspace_id))
    if last_step:
        pipeline.extract(source)
        if last_step == "normalize":
            pipeline.normalize()
        os.kill(os.getpid(), signal.SIGKILL)
    load(pipeline, source)
    counts = pipeline.last_trace.last_normalize_info.row_counts
    with pipeline.sql_client() as client:
        rows = {
            name: client.execute_sql(f"SELECT id, tracking_id, score, traits FROM {name}")
            for name in ("accounts", "users")
        }
    print(json.dumps({"rows": rows, "read": {name: counts.get(name, 0) for name in rows}}))


if __name__ == "__main__":
    main(*sys.argv[1:])
