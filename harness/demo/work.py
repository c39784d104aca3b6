"""Two colleagues who look after accounts: owners by rules, tags, notes, and closed alarms.

What an alarm was closed with follows from what is planted: nothing was wrong with accounts that
never changed.
"""

from datetime import UTC, datetime, time, timedelta

from django.contrib.auth.models import User as AdminUser

from access.trail.entries import COMMAND_LINE, Actor
from access.work import accounts, settings
from access.work.settings import Means, OwnerRule, Result, WorkSettings
from engagement.activity.reading import alarms_of
from engagement.models import Account, Alarm, AlarmWork, Product, ProductMember, Segment
from harness.demo.truths import UNCHANGED

COLLEAGUES = {"dana": ("Dana", "Wu"), "luis": ("Luis", "Ortega")}
NOTES = (
    "Their new admin asked for a training. Sent the videos, call on Thursday.",
    "Two boards moved to another team. They expect to be back to usual next month.",
    "Renewal is in the hands of procurement. Our contact likes the reports.",
)
TAGS = ("onboarding", "reference", "QBR")


def plant(product: Product, now: datetime) -> None:
    """Let the colleagues work on accounts of the product's first workspace."""
    workspace = product.workspaces.select_related("scores").earliest("pk")
    for name, (first, last) in COLLEAGUES.items():
        login, is_new = AdminUser.objects.get_or_create(
            username=name, defaults={"first_name": first, "last_name": last, "is_staff": True}
        )
        if is_new:
            login.set_unusable_password()
            login.save()
        ProductMember.objects.get_or_create(
            product=product, user=login, defaults={"may_work_on_accounts": True}
        )
    segments = Segment.objects.filter(workspace=workspace, scope="account")
    by_name = dict(segments.values_list("name", "pk"))
    rules = (OwnerRule(by_name["Most Engaged"], "dana"), OwnerRule(by_name["All"], "luis"))
    own = WorkSettings((Result("on vacation", Means.FALSE_ALARM),), rules, is_changed=True)
    Product.objects.filter(pk=product.pk).update(work=settings.to_json(own))
    if workspace.scores is None:
        return
    alarms = alarms_of(workspace.scores, *Alarm.Signal).exclude(outcome=Alarm.Outcome.REPLACED)
    for number, alarm in enumerate(alarms.order_by("since", "account_id", "signal")):
        if alarm.ended_on is not None and number % 3:
            _close(alarm, number)
    busy = alarms.filter(ended_on=None).order_by("-since", "account_id")
    ids = list(dict.fromkeys(busy.values_list("account_id", flat=True)))
    for number, id in enumerate(ids[: len(NOTES)]):
        account = Account.objects.get(product=product, pk=id)
        actor = _actor(number)
        accounts.write_note(account, NOTES[number], actor, now - timedelta(days=number, hours=3))
        accounts.add_tag(product.pk, ids[number :: len(TAGS)], TAGS[number], actor)


def _actor(number: int) -> Actor:
    return COMMAND_LINE._replace(name=list(COLLEAGUES)[number % len(COLLEAGUES)])


def _close(alarm: Alarm, number: int) -> None:
    """Close an alarm that has ended, some days before."""
    assert alarm.ended_on is not None
    account = Account.objects.get(product=alarm.product_id, pk=alarm.account_id)
    is_false = account.traits.get("demo.truth") == UNCHANGED
    results = ("false alarm", "on vacation") if is_false else ("saved", "lost", "contacted")
    day = max(alarm.since + timedelta(days=1), alarm.ended_on - timedelta(days=4))
    AlarmWork.objects.create(
        product_id=alarm.product_id,
        workspace_id=alarm.workspace_id,
        account_id=alarm.account_id,
        signal=alarm.signal,
        since=alarm.since,
        seen_on=day,
        taken_by=_actor(number).name,
        result=results[number % len(results)],
        closed_by=_actor(number).name,
        closed_at=datetime.combine(day, time(9 + number % 8, 20), UTC),
    )
