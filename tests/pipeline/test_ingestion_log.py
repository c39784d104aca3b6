"""Why did my event not arrive? The log finds every accepted message, wherever it ended."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from core.database import sql
from engagement import event_lookup
from engagement.messages import Alias, Identify, Track
from engagement.models import Product
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting
from ingestion import timestamps
from ingestion.log import newest, recent, search, status
from ingestion.log.newest import Outcome
from ingestion.log.search import MessageState, SearchHit
from ingestion.models import DropReason, IngestionKey, RecentMessage
from ingestion.payloads import UnusableMessage
from tests.engagement.history import NOON, group, identify, track
from tests.pipeline.waiting import drain, wait, wait_raw

LATER = NOON + timedelta(minutes=3)


def look(product: Product, term: str = "", **options: Any) -> search.SearchResult:
    """The messages that mention the term, or the newest."""
    if term or "reason" in options:
        return search.find_messages(product, term, LATER, **options)
    return newest.newest_messages(product, LATER, **options)


def find(product: Product, term: str = "", **options: Any) -> list[SearchHit]:
    hits = look(product, term, **options)
    assert hits.too_slow == []
    return hits.entries


def states(product: Product, term: str = "", **options: Any) -> list[tuple[int, MessageState]]:
    return [(entry.arrival, entry.state) for entry in find(product, term, **options)]


def quarantine(key: str, *messages: Any) -> list[int]:
    """Have messages that PostgreSQL cannot store fail until they are put aside."""
    ids = wait(key, *messages)
    for attempt in range(4):
        drain(NOON + timedelta(minutes=attempt))
    return ids


def test_each_message_is_found_by_each_of_its_names(acme: Product, acme_key: str) -> None:
    wait(acme_key, identify("ada", group="org"))
    drain()
    (arrival,) = wait(acme_key, replace(track("ada", "opened", group="org"), message_id="m1"))
    for when in ("waiting", "recorded"):
        for term in ("ada", "org", "opened", "m1"):
            hits = dict(states(acme, term))
            expected = MessageState.WAITING if when == "waiting" else MessageState.RECORDED
            assert hits[arrival] == expected, (when, term)
        drain()


def test_the_newest_messages_are_of_all_kinds(acme: Product, acme_key: str) -> None:
    named = replace(track("ada", "opened"), message_id="m1")
    arrivals = wait(
        acme_key,
        identify("ada", name="Ada"),
        identify("ada", group="org"),
        group("org", name="Org"),
        named,
        track("bob", "opened"),
        named,
        Identify("ada", SECONDS, {"name": "Ada"}),
        Alias("ada", "a1", NOON),
    )
    drain()
    (waits,) = wait(acme_key, track("ada"), received_at=LATER)
    hits = find(acme)
    assert [hit.arrival for hit in hits] == [waits, *reversed(arrivals)]
    texts = {str(hit.message): (hit.state, hit.explanation) for hit in reversed(hits)}
    assert texts["identify · user ada · account org"] == (
        MessageState.RECORDED,
        "Sent no traits.",
    )
    assert texts["group · account org"] == (
        MessageState.RECORDED,
        "Sent these traits: name.",
    )
    assert texts["track · “opened” · user bob"][0] == MessageState.UNIDENTIFIED_USER
    assert texts["identify · user ada"] == (
        MessageState.DOUBTFUL_TIME,
        "Sent these traits: name. The timestamp is 1970-01-21.",
    )
    assert texts["alias · user ada · previously a1"][1] == "Joins the two ids."
    # A user under an old id is identified, too.
    wait(acme_key, track("a1", "closed"), received_at=LATER)
    drain(LATER)
    assert find(acme)[0].state == MessageState.RECORDED

    def kinds_of(outcome: Outcome | None = None, kind: str = "") -> set[str]:
        return {hit.message.kind for hit in find(acme, outcome=outcome, kind=kind)}

    assert kinds_of(Outcome.DROPPED) == {"track"}
    assert kinds_of(Outcome.RECORDED) == {"identify", "group", "track", "alias"}
    assert [hit.message.user for hit in find(acme, outcome=Outcome.WAITING)] == ["bob"]
    for kind in search.KINDS:
        assert kinds_of(kind=kind) == {kind}
    assert kinds_of(Outcome.REFUSED) == kinds_of(Outcome.DROPPED, "group") == set()


def test_of_many_messages_the_log_keeps_a_few_of_each_kind_and_product(
    acme: Product, acme_key: str, globex: Product
) -> None:
    theirs = IngestionKey.create(globex, "theirs").secret
    for minute in range(5):
        wait(acme_key, *[track(f"u{number}") for number in range(200)])
        (last,) = wait(acme_key, identify("ada", minute))
        wait(theirs, identify("bob"))
        drain()
    rows = RecentMessage.objects.filter(product=acme)
    assert rows.filter(kind="track").count() <= recent.SLOTS
    assert rows.filter(kind="identify").count() == 5
    assert find(acme, kind="identify")[0].arrival == last
    assert len(find(globex)) == 5
    # A slot keeps the latest arrival, whatever is saved last.
    row = recent.RecentRow(acme.pk, "identify", last % recent.SLOTS, 1, NOON, NOON, *["x"] * 6)
    recent.save([[row], []])
    assert not rows.filter(arrival=1).exists()


def test_only_what_is_recorded_is_among_the_newest(acme: Product, acme_key: str) -> None:
    ada, forgotten_user = (SubjectRef(acme.pk, SubjectScope.USER, name) for name in ("ada", "gone"))
    wait(acme_key, identify("ada"), identify("gone"))
    drain()
    forgetting.forget(forgotten_user, LATER, suppress=True)
    assert [hit.message.user for hit in find(acme)] == ["ada"]
    wait(acme_key, identify("gone"), received_at=LATER)
    drain(LATER)
    assert {hit.message.user for hit in find(acme, outcome=Outcome.RECORDED)} == {"ada"}
    forgetting.forget(ada, LATER)
    assert not RecentMessage.objects.filter(product=acme).exists()


def test_the_new_of_another_product_are_not_among_them(
    acme: Product, acme_key: str, globex: Product
) -> None:
    wait(acme_key, identify("ada", name="Ada"), group("org", name="Org"))
    drain()
    assert states(globex) == []


@pytest.mark.parametrize("when", ["waiting", "recorded", "dropped"])
def test_a_message_is_found_by_several_of_its_names_if_it_has_all_of_them(
    acme: Product, acme_key: str, when: str
) -> None:
    """Ids and names may contain spaces; quotes keep a phrase."""
    messages = [
        replace(track("u1", "Report Shared", group="org"), message_id="m1"),
        track("u1", "export", group="org"),
        track("u2", "export", group="org"),
        track("u3", "Report", group="Shared"),
        track("say", "export", group='"ex port"'),
    ]
    wait(acme_key, *(identify(user) for user in ("u1", "u2", "u3", "say")))
    drain()
    arrivals = wait(acme_key, *messages)
    if when == "dropped":
        IngestionKey.objects.update(revoked_at=NOON)
    if when != "waiting":
        drain()

    def hits_of(text: str) -> list[int]:
        hits = find(acme, text)
        return sorted(arrivals.index(hit.arrival) for hit in hits if hit.arrival in arrivals)

    assert hits_of("u1 export") == hits_of("export  u1") == hits_of("u1 org export") == [1]
    assert hits_of("u1") == [0, 1]
    assert hits_of("org export") == [1, 2]
    # One event name, and an event of an account.
    assert hits_of("Report Shared") == [0, 3]
    assert hits_of('"Report Shared"') == [0]
    assert hits_of('"Report" Shared') == [3]
    assert hits_of("u1 Report Shared") == hits_of('"Report Shared" u1') == [0]
    assert hits_of("u3 Report Shared") == [3]
    assert hits_of('say "ex port"') == []
    assert hits_of('"ex port"') == [4]
    # Nothing has both, or the one is nobody's name.
    for text in ("u1 u2", "u1 nothing", "u1 expor", "u1 Report", "u1 EXPORT"):
        assert hits_of(text) == [], text
    # The events of one request share their message's time.
    assert hits_of("m1 u1") == ([0, 1] if when == "recorded" else [0])
    assert hits_of('m1 "Report Shared"') == [0]
    assert hits_of("m1 u2") == ([2] if when == "recorded" else [])


def test_many_words_are_one_name_and_many_meanings_are_bounded(
    acme: Product, acme_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = " ".join("abcdefghij")
    (arrival,) = wait(acme_key, track("ada", name))
    assert states(acme, name) == [(arrival, MessageState.WAITING)]
    assert states(acme, f"ada {name}") == []
    monkeypatch.setattr(search, "MAX_LOOKUPS", 1)
    # x and y are users and accounts.
    wait(acme_key, identify("x", group="y"), identify("y", group="x"), track("x", "y"))
    drain()
    assert look(acme, "x y").too_slow == ["some of the ways to read these words"]


def test_part_of_a_name_finds_nothing(acme: Product, acme_key: str) -> None:
    wait(acme_key, identify("ada"), track("ada", "opened"))
    for term in ("ad", "open", "ADA", "opened "):
        assert states(acme, term) == []


def test_a_recorded_event_says_what_it_changed(acme: Product, acme_key: str) -> None:
    wait(acme_key, identify("ada", group="org"), track("ada", "opened"))
    drain()
    (entry,) = find(acme, "opened")
    assert entry.explanation == "Counts on 2026-09-24 for the user and account org."
    assert str(entry.message) == "track · “opened” · user ada · account org"
    assert (entry.received_at, entry.message.timestamp, entry.remedy) == (NOON, NOON, "")


SECONDS = timestamps.from_milliseconds(int(NOON.timestamp()), NOON)


def test_seconds_in_the_place_of_milliseconds_are_told(acme: Product, acme_key: str) -> None:
    wait(acme_key, identify("ada"), Track("ada", "opened", SECONDS))
    wait(acme_key, Identify("bob", SECONDS, {"name": "Bob"}))
    drain()
    (entry,) = find(acme, "opened")
    assert (entry.state, entry.explanation, entry.remedy) == (
        MessageState.DOUBTFUL_TIME,
        "Recorded, but too old to score: 1970-01-21.",
        "This looks like seconds that were read as milliseconds. Correct the unit.",
    )
    (entry,) = find(acme, "bob")
    assert entry.state == MessageState.DOUBTFUL_TIME
    assert entry.explanation == "Wrote these traits: name. Their timestamp is 1970-01-21."
    assert entry.remedy.startswith("This looks like seconds")


def test_a_timestamp_from_the_future_is_told(acme: Product, acme_key: str) -> None:
    moved = timestamps.clamp_to_receipt(NOON + timedelta(days=3650), NOON)
    wait(acme_key, identify("ada", group="org"), Track("ada", "opened", moved))
    wait(acme_key, Track("ada", "opened in time", NOON))
    drain()
    (entry,) = find(acme, "opened")
    assert entry.state == MessageState.DOUBTFUL_TIME
    assert entry.explanation == (
        "Counts on 2026-09-24 for the user and account org. "
        "The timestamp was in the future, so the time of receipt counts."
    )
    assert entry.remedy == "Correct the sender's clock, or leave out the timestamp."
    (entry,) = find(acme, "opened in time")
    assert (entry.state, entry.remedy) == (MessageState.RECORDED, "")


def test_an_event_of_a_stranger_waits_for_an_identify(acme: Product, acme_key: str) -> None:
    (arrival,) = wait(acme_key, track("ada", "opened"))
    drain()
    (entry,) = find(acme, "ada")
    assert (entry.arrival, entry.state) == (arrival, MessageState.UNIDENTIFIED_USER)
    assert entry.remedy == "Send an identify with the userId “ada”."
    wait(acme_key, identify("ada"))
    drain()
    assert (arrival, MessageState.RECORDED) in states(acme, "ada")


def test_identifies_and_groups_are_found_by_the_traits_they_left(
    acme: Product, acme_key: str
) -> None:
    first, second, third = wait(
        acme_key,
        identify("ada", name="Ada", role="user"),
        identify("ada", 1, name="Ada L."),
        group("org", plan="free"),
    )
    drain()
    texts = {entry.arrival: entry.explanation for entry in find(acme, "ada")}
    assert texts == {first: "Wrote these traits: role.", second: "Wrote these traits: name."}
    assert [entry.explanation for entry in find(acme, "org")] == ["Wrote these traits: plan."]
    assert [entry.arrival for entry in find(acme, "org")] == [third]


def test_a_user_without_events_is_found(acme: Product, acme_key: str) -> None:
    wait(acme_key, identify("ada"), group("org"))
    drain()
    user, account = (search.find_messages(acme, term, LATER) for term in ("ada", "org"))
    assert user.user is not None and user.user.is_identified and not user.entries
    assert account.account is not None and account.account.is_identified


def test_a_repeat_is_dropped_and_its_first_is_named(acme: Product, acme_key: str) -> None:
    named = replace(track("ada", "opened"), message_id="m1")
    wait(acme_key, identify("ada"))
    first, second = wait(acme_key, named, named)
    drain()
    hits = search.find_messages(acme, "m1", LATER)
    assert hits.seen_at == NOON
    dropped = next(entry for entry in hits.entries if entry.state == MessageState.DROPPED)
    assert (dropped.arrival, dropped.explanation) == (second, "Duplicate")
    assert "retry" in dropped.remedy
    recorded = next(entry for entry in hits.entries if entry.state == MessageState.RECORDED)
    assert (recorded.arrival, recorded.message.message_id) == (first, "m1")


def test_a_batch_shares_its_time_and_only_a_lone_event_is_given_the_id(
    acme: Product, acme_key: str
) -> None:
    wait(acme_key, identify("ada"))
    wait(acme_key, replace(track("ada", "opened"), message_id="m1"), track("ada", "closed"))
    drain()
    hits = find(acme, "m1")
    assert [entry.message.event for entry in hits] == ["closed", "opened"]
    assert [entry.message.message_id for entry in hits] == ["", ""]


def test_what_is_quarantined_is_found_with_its_error(acme: Product, acme_key: str) -> None:
    (bad,) = quarantine(acme_key, track("ada", "\0"))
    (entry,) = find(acme, "ada")
    assert (entry.arrival, entry.state) == (bad, MessageState.QUARANTINED)
    assert entry.explanation.startswith("Failed attempts: 3. DataError:")
    assert "Retry it" in entry.remedy


def test_what_failed_once_says_when_it_is_tried_again(acme: Product, acme_key: str) -> None:
    wait(acme_key, track("ada", "\0"))
    drain()
    (entry,) = search.find_messages(acme, "ada", NOON).entries
    assert entry.explanation == "Failed attempts: 1. The next one is in 5 s."


def test_what_is_dropped_says_why_and_what_to_do(acme: Product, acme_key: str) -> None:
    (arrival,) = wait(acme_key, track("ada", "opened"))
    IngestionKey.objects.update(revoked_at=NOON)
    drain()
    for term in ("ada", "opened", ""):
        (entry,) = find(acme, term)
        assert (entry.arrival, entry.state, entry.explanation) == (
            arrival,
            MessageState.DROPPED,
            "Revoked key",
        )
        assert "Create a new ingestion key" in entry.remedy


def test_what_a_door_could_not_use_says_what_is_wrong(acme: Product, acme_key: str) -> None:
    wait(
        acme_key,
        UnusableMessage(DropReason.INVALID, "track", "userId is missing.", "opened", "m1"),
    )
    for term in ("opened", "m1"):
        assert [entry.state for entry in find(acme, term)] == [MessageState.WAITING]
    drain()
    for term in ("opened", "m1"):
        (entry,) = find(acme, term)
        assert entry.explanation == "Invalid message: userId is missing."


def test_the_newest_come_first_and_no_more_than_fit(acme: Product, acme_key: str) -> None:
    ids = wait(acme_key, identify("ada"), *[track("ada")] * (search.MAX_RESULTS + 9))
    drain()
    assert [entry.arrival for entry in find(acme, "ada")] == ids[: -search.MAX_RESULTS - 1 : -1]
    assert [entry.arrival for entry in find(acme, "opened")] == ids[: -search.MAX_RESULTS - 1 : -1]


def test_an_event_of_long_ago_that_came_lately_is_among_the_newest(
    acme: Product, acme_key: str
) -> None:
    wait(acme_key, identify("ada"))
    (arrival,) = wait(acme_key, track("ada", hours=-24 * 200))
    drain()
    entry, _ = find(acme)
    assert (entry.arrival, entry.explanation) == (arrival, "Counts on 2026-03-08 for the user.")
    # As after an upgrade from a release that did not keep the newest.
    RecentMessage.objects.all().delete()
    (entry,) = find(acme)
    assert (entry.arrival, entry.explanation[:20]) == (arrival, "Counts on 2026-03-08")


def test_what_came_days_ago_is_found_and_what_came_months_ago_by_its_user(
    acme: Product, acme_key: str
) -> None:
    old, older = NOON - timedelta(days=20), NOON - timedelta(days=90)
    wait(acme_key, identify("ada"))
    (lately,) = wait(acme_key, track("ada", hours=-24 * 20), received_at=old)
    (once,) = wait(acme_key, track("ada", "left", hours=-24 * 90), received_at=older)
    drain()
    assert states(acme, "opened") == [(lately, MessageState.RECORDED)]
    assert states(acme, "left") == []
    assert (once, MessageState.RECORDED) in states(acme, "ada")


def test_a_reason_shows_only_what_was_dropped_for_it(acme: Product, acme_key: str) -> None:
    named = replace(track("ada"), message_id="m1")
    _, repeated = wait(acme_key, named, named)
    drain()
    wait(acme_key, track("ada"))
    assert states(acme, reason="duplicate") == [(repeated, MessageState.DROPPED)]
    assert states(acme, "ada", reason="duplicate") == [(repeated, MessageState.DROPPED)]
    assert states(acme, reason="unusable") == []


def test_another_products_messages_are_not_found(
    acme: Product, acme_key: str, globex: Product
) -> None:
    theirs = IngestionKey.create(globex, "theirs").secret
    named = replace(track("ada", "opened", group="org"), message_id="m1")
    wait(theirs, identify("ada", group="org", name="Ada"), named, named)
    quarantine(theirs, track("ada", "\0"))
    wait(theirs, track("ada", "opened"))
    for term in ("", "ada", "org", "opened", "m1"):
        assert look(acme, term) == search.SearchResult(), term


def test_messages_with_unknown_keys_are_in_no_products_log(acme: Product) -> None:
    wait("edk_of_nobody", track("ada"))
    for _ in range(2):
        assert states(acme) == states(acme, "ada") == []
        drain()


def test_a_search_that_times_out_is_reported_and_the_rest_is_shown(
    acme: Product, acme_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (arrival,) = wait(acme_key, track("ada", "opened"))
    drain()
    (waits,) = wait(acme_key, track("ada", "opened"))
    newest_events = event_lookup.newest_events

    def slow_by_name(product: int, limit: int, ids: dict[str, int], **times: Any) -> Any:
        is_slow = list(ids) == ["name"]
        return sql.fetch("SELECT pg_sleep(5)") if is_slow else newest_events(product, limit, ids)

    monkeypatch.setattr(event_lookup, "newest_events", slow_by_name)
    monkeypatch.setattr(search, "LOOKUP_TIMEOUT_SECONDS", 0.2)
    hits = search.find_messages(acme, "opened", LATER)
    assert hits.too_slow == ["events of this name"]
    assert [entry.arrival for entry in hits.entries] == [waits]
    assert (arrival, MessageState.UNIDENTIFIED_USER) in states(acme, "ada")


# --- How a product stands -------------------------------------------------------------------


def test_it_says_what_waits_is_put_aside_and_was_dropped(
    acme: Product, acme_key: str, globex: Product
) -> None:
    quarantine(acme_key, track("ada", "\0"))
    named = replace(track("ada"), message_id="m1")
    wait(acme_key, *[named] * 4)
    wait("edk_of_nobody", track("ada"))
    drain(LATER)
    wait(acme_key, track("ada"), received_at=LATER)
    wait(acme_key, track("ada"), received_at=NOON)
    stands = status.for_product(acme.pk, LATER)
    assert (stands.waiting, stands.oldest, stands.quarantined) == (2, NOON, 1)
    assert (stands.drops.total, stands.drops.today) == (3, 3)
    assert stands.drops.by_reason == {DropReason.DUPLICATE: [0] * 29 + [3]}
    nothing = status.for_product(globex.pk, LATER)
    assert (nothing.waiting, nothing.oldest, nothing.drops.by_reason) == (0, None, {})


def test_drops_are_sorted_by_day_and_old_ones_are_left_out(acme: Product, acme_key: str) -> None:
    named = replace(track("ada"), message_id="m1")
    for days in (0, 1, 29, 30):
        wait(acme_key, named, named)
        drain(NOON - timedelta(days=days))
    drops = status.daily_drops(acme.pk, NOON)
    assert drops.days[0] == (NOON - timedelta(days=29)).date()
    assert drops.days[-1] == NOON.date()
    (counts,) = drops.by_reason.values()
    assert sum(counts) == drops.total
    # The very first message was no repeat.
    assert (counts[-1], counts[-2], counts[0]) == (1, 2, 2)


def test_unknown_senders_are_grouped_by_key_prefix_and_reason(acme: Product) -> None:
    wait("edk_of_nobody", track("ada"), track("ada"))
    wait("some other text", track("ada"))
    wait("", track("ada"), received_at=LATER)
    drain()
    senders = [
        (sender.key_hint, sender.reason, sender.count, sender.last_at)
        for sender in status.unknown_senders()
    ]
    assert senders[0] == ("", DropReason.MISSING_KEY, 1, LATER)
    assert sorted(senders[1:]) == [
        ("", DropReason.UNKNOWN_KEY, 1, NOON),
        ("edk_of_no", DropReason.UNKNOWN_KEY, 2, NOON),
    ]


def test_counting_a_deep_inbox_is_given_up(
    acme: Product, acme_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_slow(*_: Any) -> None:
        raise sql.StatementTimeout

    wait_raw(acme_key, b"x")
    monkeypatch.setattr(sql, "fetch", too_slow)
    stands = status.for_product(acme.pk, NOON)
    assert (stands.waiting, stands.oldest) == (None, None)
