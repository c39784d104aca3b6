"""Code examples that send a first event."""

from dataclasses import dataclass

# Stands for the key where it is not shown.
KEY_PLACEHOLDER = "YOUR_INGESTION_KEY"


@dataclass(frozen=True)
class Snippet:
    language: str
    code: str


_CURL = """\
curl -X POST {address}/v2/identify -H 'Authorization: Basic {key}' \\
  -d '{{"userId": "u1", "groupId": "a1", "traits": {{"name": "Ada", "email": "ada@example.com"}}}}'
curl -X POST {address}/v2/group -H 'Authorization: Basic {key}' \\
  -d '{{"groupId": "a1", "traits": {{"name": "Example Ltd", "domain": "example.com"}}}}'
curl -X POST {address}/v2/track -H 'Authorization: Basic {key}' \\
  -d '{{"userId": "u1", "event": "Report_Created"}}'
curl -X POST {address}/v2/track -H 'Authorization: Basic {key}' \\
  -d '{{"userId": "u1", "event": "Dashboard_Viewed"}}'
"""
_PYTHON = """\
import requests

def send(path, message):
    answer = requests.post(
        "{address}/v2/" + path,
        json=message,
        headers={{"Authorization": "Basic {key}"}},
        timeout=10,
    )
    answer.raise_for_status()

person = {{"name": "Ada", "email": "ada@example.com"}}
company = {{"name": "Example Ltd", "domain": "example.com"}}
send("identify", {{"userId": "u1", "groupId": "a1", "traits": person}})
send("group", {{"groupId": "a1", "traits": company}})
send("track", {{"userId": "u1", "event": "Report_Created"}})
send("track", {{"userId": "u1", "event": "Dashboard_Viewed"}})
"""
_JAVASCRIPT = """\
async function send(path, message) {{
  const answer = await fetch("{address}/v2/" + path, {{
    method: "POST",
    headers: {{ Authorization: "Basic {key}" }},
    body: JSON.stringify(message),
  }});
  if (!answer.ok) throw new Error(await answer.text());
}}

const person = {{ name: "Ada", email: "ada@example.com" }};
const company = {{ name: "Example Ltd", domain: "example.com" }};
await send("identify", {{ userId: "u1", groupId: "a1", traits: person }});
await send("group", {{ groupId: "a1", traits: company }});
await send("track", {{ userId: "u1", event: "Report_Created" }});
await send("track", {{ userId: "u1", event: "Dashboard_Viewed" }});
"""


def build_snippets(address: str, key: str = KEY_PLACEHOLDER) -> list[Snippet]:
    """Examples that identify a user in an account and send events to the service at *address*."""
    templates = {"curl": _CURL, "Python": _PYTHON, "JavaScript": _JAVASCRIPT}
    address = address.rstrip("/")
    return [
        Snippet(language, template.format(address=address, key=key))
        for language, template in templates.items()
    ]
