"""Makes the calls on standard input, a JSON object a line, with an unmodified SDK for Python.

Arguments: segment or rudder, the service's address, the ingestion key, and how many seconds to
pause after each call. Exit status 1 if the SDK gave up a message.
"""

import json
import sys
import time
from datetime import datetime
from typing import Any

from rudderstack.analytics.client import Client as RudderClient
from segment.analytics.client import Client as SegmentClient

CLIENTS = {"segment": SegmentClient, "rudder": RudderClient}


def main(sdk: str, address: str, key: str, pause: str) -> None:
    errors: list[str] = []
    client = CLIENTS[sdk](
        key,
        host=f"{address}/segment",
        gzip=True,
        upload_size=20,
        upload_interval=0.2,
        on_error=lambda error, batch: errors.append(f"{len(batch)} given up: {error}"),
    )
    for line in sys.stdin:
        make(client, json.loads(line))
        time.sleep(float(pause))
    client.flush()
    client.join()
    if errors:
        sys.exit("\n".join(errors))


def make(client: Any, call: dict[str, Any]) -> None:
    user = call.get("userId")
    more = {"context": call.get("context")}
    if "timestamp" in call:
        more["timestamp"] = datetime.fromisoformat(call["timestamp"])
    match call["type"]:
        case "identify":
            client.identify(user, call["traits"], **more)
        case "group":
            client.group(user, call["groupId"], call["traits"], **more)
        case "track":
            anonymous = {"anonymous_id": call["anonymousId"]} if "anonymousId" in call else {}
            client.track(user, call["event"], {"planted": "planted"}, **anonymous, **more)
        case "page":
            client.page(user, "Docs", call["name"], {}, **more)
        case "screen":
            client.screen(user, "Docs", call["name"], {}, **more)
        case "alias":
            client.alias(call["previousId"], user)


if __name__ == "__main__":
    main(*sys.argv[1:])
