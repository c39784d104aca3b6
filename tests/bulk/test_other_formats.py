"""Files of Segment and PostHog arrive as their messages would have arrived."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from engagement.models import Account, Event, Product, User
from ingestion.bulk import formats, importing
from ingestion.bulk.files import LineReader
from ingestion.bulk.importing import Problem
from ingestion.models import ImportedFile
from tests.bulk.lines import Folder, json_lines, opened
from tests.bulk.test_importing import PowerCut, heal
from tests.engagement.history import NOON

pytestmark = pytest.mark.django_db

AT = "2026-01-05T10:00:00Z"
WHEN = datetime(2026, 1, 5, 10, tzinfo=UTC)


def import_as(
    product: Product, format: str, content: bytes, group_type: str | None = None
) -> tuple[ImportedFile, list[Problem]]:
    digest = content[:32].ljust(32)
    imported = importing.start_or_resume(product.pk, digest, "file", NOON, again=False)
    problems: list[Problem] = []
    source = LineReader(opened(content), imported.position, imported.lines)
    parse = formats.parser(format, group_type)
    importing.run_import(imported, source, problems.extend, lambda: NOON, parse=parse)
    return imported, problems


def stored(product: Product) -> list[tuple[str, str, str | None, datetime]]:
    """Each event's user, name, account, and time."""
    rows = Event.objects.filter(product=product).values_list(
        "user__external_id", "event_name__name", "account__external_id", "occurred_at"
    )
    return sorted(rows)


# --- Segment --------------------------------------------------------------------------------


def segment(type: str, **more: Any) -> dict[str, Any]:
    context = {"library": {"name": "analytics.js"}, "page": {"path": "/"}}
    return {
        **{"type": type, "messageId": f"m-{type}-{more.get('event')}", "version": 2},
        **{"anonymousId": "anon-1", "userId": "ada", "context": context, "channel": "client"},
        **{"timestamp": AT, "originalTimestamp": AT, "receivedAt": AT, "sentAt": AT},
        **{"integrations": {}, "properties": {"secret": "planted"}, **more},
    }


def test_segments_files_are_read_as_its_sdks_are(acme: Product) -> None:
    content = json_lines(
        segment("identify", traits={"email": "ada@initech.example"}),
        segment("group", groupId="initech", traits={"name": "Initech"}),
        segment("track", event="Report_Created"),
        segment("page", name="Pricing"),
        segment("track", event="Seen", userId=None),
    )
    imported, problems = import_as(acme, "segment", content)
    assert problems == []
    assert (imported.lines, imported.recorded, imported.left_out) == (5, 4, 1)
    assert User.objects.get().traits == {"email": "ada@initech.example"}
    assert Account.objects.get().traits == {"name": "Initech"}
    assert stored(acme) == [
        ("ada", "Report_Created", "initech", WHEN),
        ("ada", "Viewed Pricing Page", "initech", WHEN),
    ]


def test_lines_of_segment_that_are_no_message_are_problems(acme: Product) -> None:
    content = json_lines(segment("delete"), segment("track", event=7), {"type": "track"}) + b"{\n"
    imported, problems = import_as(acme, "segment", content)
    assert [number for number, _ in problems] == [1, 2, 3, 4]
    assert (imported.invalid, imported.recorded) == (4, 0)


# --- PostHog --------------------------------------------------------------------------------


def posthog(event: str, **properties: Any) -> dict[str, Any]:
    return {
        **{"uuid": f"0190-{event}-{len(properties)}", "event": event, "distinct_id": "ada"},
        **{"properties": {"$lib": "web", "secret": "planted", **properties}},
        **{"timestamp": AT.replace("T", " ").replace("Z", ".000000+00:00"), "team_id": 7},
        **{"person_properties": {"email": "old@initech.example"}, "elements_chain": ""},
    }


def test_posthogs_events_are_users_accounts_and_events(acme: Product) -> None:
    groups = {"company": 42, "project": "website"}
    content = json_lines(
        posthog("$identify", **{"$set": {"email": "ada@initech.example", "$browser": "Chrome"}}),
        posthog(
            "$groupidentify",
            **{"$group_type": "company", "$group_key": "42", "$group_set": {"name": "Initech"}},
        ),
        posthog("$groupidentify", **{"$group_type": "project", "$group_key": "website"}),
        posthog("Report_Created", **{"$groups": groups, "$is_identified": True}),
        posthog("$pageview", **{"$groups": groups}),
        posthog("$autocapture", **{"$groups": groups}),
        posthog("Opened", **{"$is_identified": False}),
        posthog("Opened", **{"$process_person_profile": False, "a": 1}),
    )
    imported, problems = import_as(acme, "posthog", content, "company")
    assert problems == []
    assert (imported.lines, imported.left_out) == (8, 4)
    ada = User.objects.get()
    assert (ada.external_id, ada.is_identified) == ("ada", True)
    assert ada.traits == {"email": "ada@initech.example"}
    assert Account.objects.get().traits == {"name": "Initech"}
    assert stored(acme) == [
        ("ada", "Report_Created", "42", WHEN),
        ("ada", "Viewed Page", "42", WHEN),
    ]


def test_properties_may_be_text_and_the_only_group_is_the_account(acme: Product) -> None:
    line = posthog("Opened", **{"$groups": {"site": "initech"}})
    line["properties"] = json.dumps(line["properties"])
    _, problems = import_as(acme, "posthog", json_lines(line))
    assert problems == []
    assert stored(acme) == [("ada", "Opened", "initech", WHEN)]


def test_an_alias_of_posthog_joins_two_ids(acme: Product) -> None:
    before = posthog("Opened") | {"distinct_id": "ada@initech.example"}
    content = json_lines(before, posthog("$create_alias", alias="ada@initech.example"))
    import_as(acme, "posthog", content)
    assert stored(acme) == [("ada", "Opened", None, WHEN)]


def test_lines_of_posthog_that_say_too_little_are_problems(acme: Product) -> None:
    content = json_lines(
        posthog("Opened", **{"$groups": {"company": "a", "project": "b"}}),
        posthog("Opened") | {"distinct_id": ""},
        posthog("Opened") | {"timestamp": "yesterday"},
        posthog("Opened") | {"timestamp": None},
        posthog("Opened") | {"properties": "{"},
        posthog("Opened") | {"properties": []},
        posthog("$create_alias"),
        posthog("$groupidentify"),
        {"uuid": "1"},
    )
    imported, problems = import_as(acme, "posthog", content)
    assert [number for number, _ in problems] == list(range(1, 10))
    assert "--group-type" in problems[0][1]
    assert imported.recorded == 0 and stored(acme) == []


def test_an_interrupted_file_resumes_and_counts_once(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = json_lines(*(posthog("Opened") | {"uuid": f"u-{n}"} for n in range(3)))

    def die(*_: object) -> None:
        raise PowerCut

    monkeypatch.setattr(importing, "record", die)
    with pytest.raises(PowerCut):
        import_as(acme, "posthog", content)
    heal(monkeypatch)
    import_as(acme, "posthog", content)
    assert len(stored(acme)) == 3
    # The same events in another file are repeats.
    _, problems = import_as(acme, "posthog", b"\n" + content)
    assert problems == [] and len(stored(acme)) == 3


@pytest.mark.django_db(transaction=True)
def test_the_command_says_what_it_left_out(acme: Product, folder: Folder) -> None:
    content = json_lines(segment("track", event="Opened"), segment("track", userId=None, event="X"))
    folder.write("events.json", content)
    text = folder.run(
        "import_messages", "events.json", "--product", str(acme.pk), "--format", "segment"
    )
    assert "2 lines: 1 recorded; 1 left out, which are no user's." in text


@pytest.mark.slow
@pytest.mark.parametrize("format", ["segment", "posthog"])
@pytest.mark.django_db(transaction=True)
def test_a_killed_command_resumes_and_each_event_counts_once(
    acme: Product, folder: Folder, format: str
) -> None:
    lines = 20_000
    if format == "segment":
        content = [segment("track", event="Opened", messageId=f"m-{n}") for n in range(lines)]
    else:
        content = [posthog("Opened") | {"uuid": f"u-{n}"} for n in range(lines)]
    path = folder.write("events.json", json_lines(*content))
    arguments = ["import_messages", path, "--product", str(acme.pk), "--format", format]
    where = connection.settings_dict
    terminal, theirs = os.openpty()
    command = subprocess.Popen(
        [sys.executable, "manage.py", *arguments],
        cwd=settings.BASE_DIR,
        env={
            **os.environ,
            "DATABASE_URL": f"postgresql://{where['USER']}@/{where['NAME']}?host={where['HOST']}",
            "EDS_SECRET_KEY": "only-for-this-test" * 4,
            "EDS_ENCRYPTION_KEYS": ",".join(map(str, settings.ENCRYPTION_KEYS)),
        },
        stderr=theirs,
    )
    os.close(theirs)
    progress = os.read(terminal, 1000).decode()
    command.kill()
    command.wait()
    os.close(terminal)
    assert "%" in progress and "lines" in progress
    imported = ImportedFile.objects.get().lines
    assert 0 < imported < lines
    assert f"resuming after line {imported:,}." in folder.run(*arguments)
    assert Event.objects.count() == lines
