"""Imported messages are recorded as if they had been sent, once each, bad ones reported."""

import gzip
import hashlib
import io
import json
import sys
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError
from django.db import DataError
from msgspec.structs import replace

from engagement.messages import ReceivedMessage, Rejection
from engagement.models import AccountEngagement, DailyCount, Event, Product, RescoreRequest, User
from engagement.recording.record import record
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import deletion, forgetting
from engagement.rescoring.rescore import rescore
from ingestion.bulk import files, importing
from ingestion.models import DroppedMessage, ImportedFile, IngestionKey, SeenMessageId
from tests.bulk.lines import Folder, events, go_on, import_bytes, json_lines, opened
from tests.engagement.history import NOON, group, identify, state, tell, track
from tests.pipeline.waiting import counts, drain, dropped, wait

pytestmark = pytest.mark.django_db

ADA = {"type": "identify", "userId": "ada", "groupId": "initech", "traits": {"plan": "pro"}}
INITECH = {"type": "group", "groupId": "initech", "userId": "bob", "traits": {"seats": 5}}
OPENED: dict[str, Any] = {"type": "track", "userId": "ada", "event": "opened"}


class PowerCut(BaseException):
    """The process ends here: nothing that handles errors may handle this."""


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(files, "MIN_BATCH_LINES", 5)


@pytest.fixture
def cut_power_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Have the import die in the middle of the batch after so many."""

    def cut(batches: int) -> None:
        batches_left = batches

        def record_and_die(received: Sequence[ReceivedMessage]) -> list[Rejection]:
            nonlocal batches_left
            batches_left -= 1
            outcome = record(received)
            if batches_left < 0:
                raise PowerCut
            return outcome

        monkeypatch.setattr(importing, "record", record_and_die)

    return cut


def heal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "record", record)


# --- What is recorded -----------------------------------------------------------------------


def test_lines_are_recorded_as_the_messages_that_they_are(acme: Product, globex: Product) -> None:
    at = "2026-09-20T08:00:00Z"
    lines: list[dict[str, Any]] = [ADA, INITECH, OPENED]
    lines.append({**OPENED, "context": {"groupId": "hooli"}})
    content = json_lines(*({**line, "timestamp": at, "ignored": [1]} for line in lines))
    assert import_bytes(acme, content) == []
    hours = (date(2026, 9, 20) - NOON.date()).days * 24 - 4
    tell(
        globex,
        identify("ada", hours, "initech", plan="pro"),
        group("initech", hours, "bob", seats=5),
        track("ada", hours=hours),
        track("ada", hours=hours, group="hooli"),
    )
    imported_state, expected = state(acme), state(globex)
    for each_state in (imported_state, expected):
        each_state["events"] = [event[1:] for event in each_state["events"]]
        each_state["memberships"] = set(each_state["memberships"])
        for rows in (each_state["users"], each_state["accounts"]):
            for name, (traits, stamps, *rest) in rows.items():
                rows[name] = (traits, {key: at for key, (at, _) in stamps.items()}, *rest)
    assert imported_state == expected


def test_the_original_times_count_for_history(acme: Product) -> None:
    days = ["2022-01-01", "2024-02-29", "2026-09-23"]
    lines = [{**OPENED, "timestamp": f"{day}T23:59:59.999999Z"} for day in days]
    import_bytes(acme, json_lines(ADA, *lines))
    counted = DailyCount.objects.order_by("day").values_list("day", flat=True)
    assert [str(day) for day in counted] == days
    assert {event.received_at for event in Event.objects.all()} == {NOON}


def test_scores_follow(acme: Product) -> None:
    import_bytes(acme, json_lines(ADA, OPENED, OPENED))
    assert RescoreRequest.objects.exists() and not AccountEngagement.objects.exists()
    rescore(NOON)
    assert AccountEngagement.objects.get().raw == 2


def test_late_links_move_imported_events_and_those_that_were_there(acme: Product) -> None:
    tell(acme, identify("ada", -1000, "hooli"), track("ada", hours=-500))
    import_bytes(acme, json_lines({**ADA, "timestamp": "2026-08-20T00:00:00Z"}))
    assert Event.objects.get().account.external_id == "initech"  # type: ignore[union-attr]


def test_a_message_id_makes_a_repeat_harmless(acme: Product, acme_key: str) -> None:
    first = import_bytes(acme, events(3, messageId="m1") + events(1, messageId="m2"))
    assert first == [] and sum(counts(acme).values()) == 2
    imported = ImportedFile.objects.get()
    assert (imported.recorded, imported.duplicates) == (2, 2)
    # Whichever way they come.
    import_bytes(acme, events(2, messageId="m2"))
    wait(acme_key, replace(track("ada"), message_id="m1"))
    drain()
    assert sum(counts(acme).values()) == 2
    assert [reason for _, reason in dropped()] == ["duplicate"]


def test_whoever_was_forgotten_for_good_stays_forgotten(acme: Product) -> None:
    forgetting.forget(SubjectRef(acme.pk, SubjectScope.USER, "ada"), NOON, suppress=True)
    assert import_bytes(acme, json_lines(ADA, INITECH, OPENED)) == []
    assert {user.external_id for user in User.objects.all()} == {"bob"}
    imported = ImportedFile.objects.get()
    assert (imported.recorded, imported.forgotten) == (1, 2)


# --- Bad lines ------------------------------------------------------------------------------

BAD = {
    b"{": "The line is not valid JSON.",
    b"[1]": "The line must be a JSON object.",
    b"null": "The line must be a JSON object.",
    b"\xff": "The line is not valid UTF-8.",
    b"{}": "type is required and must be a non-empty string.",
    b'{"type": 5}': "type must be a string.",
    b'{"type": "page", "userId": "a"}': "type has an unknown value. Check its spelling.",
    b'{"type": "alias", "userId": "a"}': "previousId is required and must be a non-empty string.",
    b'{"type": "track", "event": "x"}': "userId is required and must be a non-empty string.",
    b'{"type": "track", "userId": "a"}': "event is required and must be a non-empty string.",
    b'{"type": "track", "userId": 7, "event": "x"}': "userId must be a string.",
    b'{"type": "identify", "userId": "a\\u0000"}': "userId must not contain control characters "
    "or lone surrogates.",
    b'{"type": "identify", "userId": "a", "timestamp": "soon"}': "timestamp must be an ISO 8601 "
    "date and time such as 2026-09-24T10:11:12Z, between the years 1970 and 9999.",
    b'{"type": "group", "groupId": " "}': "groupId is required and must be a non-empty string.",
    b'{"type": "group", "groupId": "a", "messageId": ""}': "messageId must be a non-empty string. "
    "Leave it out if unused.",
    b'{"type": "group", "groupId": "a", "source": "me"}': "source has an unknown value. Check "
    "its spelling.",
    b'{"type": "seen"}': "Send either userId or groupId, not both.",
    b'{"type": "seen", "userId": "a", "firstAt": "2026-13"}': "firstAt must be an ISO 8601 date "
    "and time such as 2026-09-24T10:11:12Z, between the years 1970 and 9999.",
    b'{"type": "seen", "userId": "a"}': "firstAt is required and must be a non-empty string.",
    b'{"type": "link", "userId": "a"}': "groupId is required and must be a non-empty string.",
    b'{"type": "count", "userId": "a", "event": "x", "count": 0}': "count must be an integer from "
    "1 to 2,147,483,647.",
    b'{"type": "count", "userId": "a", "event": "x", "count": 1}': "lastAt is required and must "
    "be a non-empty string.",
}


def test_bad_lines_are_reported_with_their_numbers_and_cost_no_other(acme: Product) -> None:
    good = json_lines(OPENED)
    content = b"".join(line + b"\n" + good for line in BAD)
    problems = import_bytes(acme, content)
    assert problems == [(2 * place + 1, reason) for place, reason in enumerate(BAD.values())]
    assert sum(counts(acme).values()) == len(BAD)
    imported = ImportedFile.objects.get()
    assert (imported.lines, imported.invalid) == (2 * len(BAD), len(BAD))


def test_traits_that_find_no_room_are_noted_and_the_rest_of_the_line_is_recorded(
    acme: Product, folder: Folder
) -> None:
    full = [
        {"type": "group", "groupId": "initech", "traits": {f"t{n}": 1 for n in range(at, at + 250)}}
        for at in range(0, 1000, 250)
    ]
    last = {**INITECH, "traits": {"t7": 2, "plan": "pro"}}
    path = folder.write("a.ndjson", json_lines(*full, last))
    output = folder.run("import_messages", path, "--product", acme.pk)
    assert f"5 recorded; some traits did not fit, listed in {path}.problems.txt" in output
    assert folder.text("a.ndjson.problems.txt") == (
        f"{path}:5: Too many traits: not kept: plan. The rest of the line was recorded.\n"
    )
    assert ImportedFile.objects.get().invalid == 0
    assert User.objects.get().external_id == "bob"


def test_empty_lines_are_nothing(acme: Product) -> None:
    assert import_bytes(acme, b"\n  \n\r\n" + json_lines(OPENED) + b"\n{") == [
        (6, "The line is not valid JSON.")
    ]


def test_a_line_that_cannot_be_recorded_is_found_and_costs_no_other(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(received: Sequence[ReceivedMessage]) -> list[Rejection]:
        if any(getattr(message.message, "event", "") == "cursed" for message in received):
            raise DataError("it is\ncursed")
        return record(received)

    monkeypatch.setattr(importing, "record", refuse)
    cursed = json_lines({**OPENED, "event": "cursed"})
    problems = import_bytes(acme, events(30) + cursed + events(30) + cursed)
    assert problems == [
        (number, "It cannot be recorded (DataError: it is cursed).") for number in (31, 62)
    ]
    assert counts(acme) == {("ada", "opened"): 60}


# --- Interruptions --------------------------------------------------------------------------


@pytest.mark.parametrize("batches", [0, 1, 3])
@pytest.mark.parametrize("packed", [False, True])
def test_an_interrupted_import_goes_on_where_it_stopped(
    acme: Product,
    batches: int,
    packed: bool,
    small_batches: None,
    cut_power_after: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = events(100) + b"{\n" + events(1, user="bob")
    data = gzip.compress(content) if packed else content
    cut_power_after(batches)
    with pytest.raises(PowerCut):
        import_bytes(acme, data)
    interrupted = ImportedFile.objects.get()
    before = sum(counts(acme).values())
    assert interrupted.recorded == interrupted.lines == before < 100
    assert (before > 0) is (batches > 0)
    heal(monkeypatch)
    assert import_bytes(acme, data) == [(101, "The line is not valid JSON.")]
    assert counts(acme) == {("ada", "opened"): 100, ("bob", "opened"): 1}
    finished = ImportedFile.objects.get()
    assert (finished.recorded, finished.lines, finished.invalid) == (101, 102, 1)
    assert finished.position == len(content)
    assert finished.finished_at == NOON


def test_of_two_imports_of_a_file_at_once_one_stops(acme: Product, small_batches: None) -> None:
    content = events(50)
    ours = importing.start_or_resume(acme.pk, b"digest", "file", NOON, again=False)
    theirs = importing.start_or_resume(acme.pk, b"digest", "file", NOON, again=False)
    go_on(theirs, content)
    with pytest.raises(importing.ImportStopped, match="Another import of the same file"):
        go_on(ours, content)
    assert sum(counts(acme).values()) == 50


def test_an_import_stops_when_its_product_is_deleted(acme: Product, small_batches: None) -> None:
    start = importing.start_or_resume(acme.pk, b"digest", "file", NOON, again=False)
    deletion.request_deletion(acme.pk, NOON)
    with pytest.raises(importing.ImportStopped, match="The product was deleted"):
        go_on(start, events(5))
    assert not Event.objects.exists()


def test_what_is_before_the_damage_of_a_file_stays_recorded(
    acme: Product, folder: Folder, small_batches: None
) -> None:
    # Bytes that do not compress, so that the damage is far behind.
    users = [hashlib.sha256(bytes([place])).hexdigest() for place in range(200)]
    data = gzip.compress(b"".join(events(1, user=user) for user in users))
    name = folder.write("years.ndjson", data[: len(data) // 2])
    with pytest.raises(
        CommandError, match=r"ends too early.* are done\. Run the same command again"
    ):
        folder.run("import_messages", name, "--product", acme.pk)
    assert 0 < sum(counts(acme).values()) < 200


# --- The command ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["messages.ndjson", "messages.ndjson.gz", "packed-unsaid.gz"])
def test_the_command_imports_files_and_says_what_became_of_them(
    name: str, acme: Product, folder: Folder
) -> None:
    path = folder.write(name, json_lines(ADA, OPENED, {"type": "page"}))
    output = folder.run("import_messages", path, "--product", "Acme")
    assert f"{path}: 3 lines: 2 recorded; 1 invalid, listed in " in output
    assert "A worker updates the scores" in output
    reason = "type has an unknown value. Check its spelling."
    assert folder.text(f"{name}.problems.txt") == f"{path}:3: {reason}\n"


def test_the_key_of_a_product_names_it_too(
    acme: Product, acme_key: str, globex: Product, folder: Folder
) -> None:
    path = folder.write("messages.ndjson", json_lines(OPENED))
    folder.run("import_messages", path, "--key", acme_key)
    assert (sum(counts(acme).values()), sum(counts(globex).values())) == (1, 0)
    assert folder.names() == {"messages.ndjson"}


def test_several_files_are_imported_one_after_the_other(acme: Product, folder: Folder) -> None:
    paths = [folder.write(f"{place}.ndjson", events(place) + b"{\n") for place in (1, 2)]
    folder.run("import_messages", *paths, "--product", acme.pk, "--problems", "all.txt")
    assert sum(counts(acme).values()) == 3
    assert folder.text("all.txt").count("not valid JSON") == 2


@pytest.mark.parametrize("packed", [False, True])
def test_standard_input_is_imported(
    packed: bool, acme: Product, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = events(3) + b"{\n"
    data = gzip.compress(content) if packed else content
    for _ in range(2):
        stdin = io.TextIOWrapper(opened(data))
        monkeypatch.setattr(sys, "stdin", stdin)
        folder.run("import_messages", "-", "--product", acme.pk)
    # Nothing tells whether it is the same again but message ids.
    assert sum(counts(acme).values()) == 6
    assert folder.text("stdin.problems.txt") == "-:4: The line is not valid JSON.\n"


def test_a_file_that_was_imported_is_not_imported_again_unless_asked(
    acme: Product, folder: Folder
) -> None:
    first = folder.write("a.ndjson", events(3))
    renamed = folder.write("b.ndjson", events(3))
    folder.run("import_messages", first, "--product", acme.pk)
    for path in (first, renamed):
        output = folder.run("import_messages", path, "--product", acme.pk)
        assert "Use --again to import it once more" in output
    assert sum(counts(acme).values()) == 3
    folder.run("import_messages", renamed, "--product", acme.pk, "--again")
    assert sum(counts(acme).values()) == 6


def test_the_command_goes_on_and_says_so(
    acme: Product,
    folder: Folder,
    small_batches: None,
    cut_power_after: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = folder.write("a.ndjson", b"{\n" + events(50) + b"{\n")
    cut_power_after(2)
    with pytest.raises(PowerCut):
        folder.run("import_messages", path, "--product", acme.pk)
    line_count = ImportedFile.objects.get().lines
    heal(monkeypatch)
    output = folder.run("import_messages", path, "--product", acme.pk)
    assert f"resuming after line {line_count:,}" in output
    assert sum(counts(acme).values()) == 50
    # Both runs add to the same list.
    listed = [line.split(":")[1] for line in folder.text("a.ndjson.problems.txt").splitlines()]
    assert listed == ["1", "52"]


def test_ctrl_c_reports_the_progress(
    acme: Product, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> list[Rejection]:
        raise KeyboardInterrupt

    monkeypatch.setattr(importing, "record", interrupt)
    path = folder.write("a.ndjson", events(5))
    with pytest.raises(
        CommandError, match=r"interrupted. 0 lines are done. Run the same"
    ) as raised:
        folder.run("import_messages", path, "--product", acme.pk)
    assert raised.value.returncode == 130


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["nowhere.ndjson", "--product", "Acme"], "nowhere.ndjson cannot be read .No such file"),
        (["a.ndjson", "--product", "Hooli"], "there is no product 'Hooli'"),
        (["a.ndjson", "--key", "edk_wrong"], "no product has this ingestion key"),
        (["a.ndjson"], "one of the arguments --product --key is required"),
    ],
)
def test_the_command_says_what_is_wrong(
    arguments: list[str], reason: str, acme: Product, folder: Folder
) -> None:
    folder.write("a.ndjson", events(1))
    with pytest.raises(CommandError, match=reason):
        folder.run("import_messages", *arguments)


def test_a_revoked_key_opens_nothing(acme: Product, acme_key: str, folder: Folder) -> None:
    IngestionKey.objects.update(revoked_at=NOON)
    with pytest.raises(CommandError, match="or it is revoked"):
        folder.run("import_messages", folder.write("a", events(1)), "--key", acme_key)


def test_nothing_of_an_import_is_listed_as_dropped(acme: Product) -> None:
    import_bytes(acme, json.dumps(OPENED).encode() + b"\n{\n")
    assert not DroppedMessage.objects.exists()


def test_message_ids_of_an_import_are_remembered_from_its_time_on(acme: Product) -> None:
    import_bytes(acme, events(1, messageId="m1"))
    assert SeenMessageId.objects.get().seen_at == NOON
    assert NOON - Event.objects.get().occurred_at > timedelta(days=20)


def test_files_live_as_paths_of_any_name(acme: Product, folder: Folder) -> None:
    (folder.path / "years ü").mkdir()
    path = Path("years ü") / "of events.ndjson"
    path.write_bytes(events(1) + b"{")
    folder.run("import_messages", path, "--product", acme.pk)
    assert (path.parent / "of events.ndjson.problems.txt").exists()
    assert "of events.ndjson.problems.txt" not in folder.names()


def test_problems_that_cannot_be_written_stop_the_import_with_a_sentence(
    acme: Product, folder: Folder
) -> None:
    path = folder.write("a.ndjson", events(1) + b"{\n")
    target = Path("missing") / "problems.txt"
    with pytest.raises(CommandError, match=r"cannot be written: No such .* by --problems"):
        folder.run("import_messages", path, "--product", acme.pk, "--problems", target)
