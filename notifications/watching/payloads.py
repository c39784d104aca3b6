"""The content of messages: a sentence, and what a program needs to know."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.urls import reverse
from msgspec import UNSET

from engagement.activity.reading import last_alarms
from engagement.models import (
    Account,
    AccountEngagement,
    Alarm,
    Product,
    Segment,
    User,
    UserEngagement,
    Workspace,
)
from engagement.rules.texts import CHANCE_LABELS
from engagement.scores.metrics import compute_scores
from engagement.segments.chances import ShownChance, account_chances, shown_chance
from engagement.traits import canonical_name
from notifications import messages
from notifications.models import Destination, Subscription
from notifications.triggers import CHANCES, TRIGGERS, Trigger
from notifications.watching.insights import SIGNALS, describe_end, insight_label
from notifications.watching.watches import WatchedSet, tells_entered


@dataclass(frozen=True)
class Condition:
    """A condition that holds: a sentence about it, the admin page about it, and its numbers.

    ``subject_id`` tells conditions of one product apart that may hold side by side. ``account`` is
    the one that the condition names, and ``path`` is then its page.
    """

    text: str
    path: str
    numbers: dict[str, Any]
    subject_id: int | None = None
    account: Account | None = None


@dataclass(frozen=True)
class Draft:
    """A message before it is written."""

    title: str
    payload: dict[str, Any]
    scope: str = ""
    subject_id: int | None = None
    external_id: str = ""
    name: str = ""


@dataclass(frozen=True)
class Subject:
    """A user or an account with its engagement row, None if it is in no score set any more.
    *alarm* is the one whose insight ended."""

    row: User | Account
    engagement: UserEngagement | AccountEngagement | None
    alarm: Alarm | None = None

    @property
    def name(self) -> str:
        return subject_name(self.row)


def subject_name(row: User | Account) -> str:
    if isinstance(row, User):
        return row.name or row.email or row.external_id
    return row.name or row.domain or row.external_id


@dataclass(frozen=True)
class Facts:
    """What the messages of one sweep to one subscription have in common."""

    subscription: Subscription
    watched: WatchedSet
    now: datetime

    def load(self, ids: Sequence[int]) -> list[Subject]:
        """The subjects with these ids, in their order."""
        kind = self.watched.kind
        score_set = self.watched.score_set
        subjects = kind.model._default_manager.filter(product=score_set.product_id)
        rows = subjects.in_bulk(list(ids))
        engagement = kind.engagement_rows(score_set)
        engagement = engagement.filter(**{f"{kind.id_column}__in": list(ids)})
        if self._trigger in CHANCES:
            engagement = engagement.annotate(account_chances=account_chances(score_set))
        by_id = {kind.subject_id(row): row for row in engagement}
        alarms = self._ended_alarms(ids)
        return [Subject(rows[id], by_id.get(id), alarms.get(id)) for id in ids if id in rows]

    def _ended_alarms(self, ids: Sequence[int]) -> dict[int, Alarm]:
        signal = SIGNALS.get(self.subscription.insight)
        if self._trigger != Trigger.INSIGHT_ENDED or signal is None:
            return {}
        return last_alarms(self.watched.score_set, signal, list(ids))

    def about(self, subject: Subject) -> Draft:
        """The message that the subject has entered or left the watched set."""
        before, after = self._before_and_after(subject)
        title = f"{subject.name} {self._change(subject, after)}"
        data = self._data(
            messages.CHANGES,
            text=title,
            **{self.watched.kind.scope: self._subject(subject)},
            before=before,
            after=after,
            **self._chance_fields(subject),
        )
        return Draft(
            title,
            messages.payload(self._type, self.now, data),
            self.watched.kind.scope,
            subject.row.pk,
            subject.row.external_id,
            subject.name,
        )

    def about_many(self, count: int, first: Sequence[Subject]) -> Draft:
        """One message about more subjects than get a message each."""
        title = f"{count:,} {self.watched.kind.plural}: {self._plural_change()}"
        data = self._data(
            messages.SUMMARIES,
            text=title,
            count=count,
            first=[self._subject(subject) for subject in first],
        )
        return Draft(title, messages.payload(f"{self._type}.summary", self.now, data))

    @property
    def _trigger(self) -> Trigger:
        return Trigger(self.subscription.trigger)

    @property
    def _type(self) -> str:
        return TRIGGERS[self._trigger].type

    def _data(
        self, types: dict[Trigger, type[messages.SubjectMessage]], **values: Any
    ) -> messages.SubjectMessage:
        """The trigger's data with these values, and with those of the subscription that it has."""
        subscription, data_type = self.subscription, types[self._trigger]
        common = {
            "subscription_id": subscription.pk,
            "product": _named(subscription.product),
            "workspace": _named(subscription.workspace),
            "segment": _named(subscription.segment),
            "insight": subscription.insight,
            "threshold": subscription.threshold,
            "direction": subscription.direction,
        }
        fields = data_type.__struct_fields__
        return data_type(**{key: common[key] for key in common if key in fields}, **values)

    def _subject(self, subject: Subject) -> messages.NotifiedSubject:
        chosen_names = self.subscription.traits
        traits = {name: subject.row.traits.get(canonical_name(name)) for name in chosen_names}
        return messages.NotifiedSubject(
            id=subject.row.pk,
            tracking_id=subject.row.external_id,
            # The old name, for receivers of the last release.
            external_id=subject.row.external_id,
            name=subject.name,
            link=self._link(subject),
            traits=traits or UNSET,
        )

    def _link(self, subject: Subject) -> str:
        # Only processes with pages load the admin.
        from access.pages.subject_urls import subject_url

        workspace_id = self.watched.score_set.workspace_id
        page = subject_url(subject.row, self.watched.kind.scope, workspace_id)
        return f"{self.subscription.destination.site_url}{page}"

    def _before_and_after(
        self, subject: Subject
    ) -> tuple[messages.ScoreBefore, messages.ScoreAfter]:
        has_entered = tells_entered(self.subscription)
        before: dict[str, Any] = {}
        after: dict[str, Any] = {}
        if subject.engagement is not None:
            scores = compute_scores(subject.engagement, self.watched.score_set)
            before = {"score_last_period": scores.last_period}
            after = {"score": scores.now, "score_change": scores.change}
        match self._trigger:
            case Trigger.SEGMENT_ENTERED | Trigger.SEGMENT_LEFT:
                return (
                    messages.SegmentBefore(in_segment=not has_entered, **before),
                    messages.SegmentAfter(in_segment=has_entered, **after),
                )
            case Trigger.INSIGHT_STARTED | Trigger.INSIGHT_ENDED:
                if subject.alarm is not None and subject.alarm.outcome:
                    after["outcome"] = subject.alarm.outcome
                return (
                    messages.InsightBefore(has_insight=not has_entered, **before),
                    messages.InsightAfter(has_insight=has_entered, **after),
                )
        return messages.ScoreBefore(**before), messages.ScoreAfter(**after)

    def _chance(self, subject: Subject) -> ShownChance | None:
        """None also if the account is in no scores any more."""
        if self._trigger not in CHANCES or subject.engagement is None:
            return None
        rows = vars(subject.engagement)["account_chances"]
        return shown_chance(rows, CHANCES[self._trigger])

    def _chance_fields(self, subject: Subject) -> dict[str, Any]:
        chance = self._chance(subject)
        if chance is None:
            return {}
        return {"chance": chance.percent, "low": chance.low, "high": chance.high}

    def _change(self, subject: Subject, after: messages.ScoreAfter) -> str:
        subscription = self.subscription
        score, change = after.score or 0.0, after.score_change or 0.0
        match subscription.trigger:
            case Trigger.SCORE_CROSSED:
                verb = "rose to" if tells_entered(subscription) else "fell below"
                number = f"{subscription.threshold:g}"
                return f"{verb} {number}{' or more' if verb == 'rose to' else ''}: {score} now."
            case Trigger.SCORE_MOVED:
                verb = "rose" if subscription.direction == "up" else "fell"
                return f"{verb} by {abs(change)} points to {score}."
        if chance := self._chance(subject):
            now = f"{chance.percent}% ({chance.low} to {chance.high}%) now"
            return f"has a {self._plural_change()}: {now}."
        return f"{self._plural_change()}{describe_end(subject.alarm)}."

    def _plural_change(self) -> str:
        subscription = self.subscription
        if self._trigger in CHANCES:
            label = CHANCE_LABELS[CHANCES[self._trigger]].lower()
            return f"{label} below {subscription.threshold:g}%"
        match subscription.trigger:
            case Trigger.SEGMENT_ENTERED:
                return f"entered {subscription.segment}"
            case Trigger.SEGMENT_LEFT:
                return f"left {subscription.segment}"
            case Trigger.INSIGHT_STARTED:
                return f"has the insight “{insight_label(subscription.insight)}”"
            case Trigger.INSIGHT_ENDED:
                return f"no longer has the insight “{insight_label(subscription.insight)}”"
            case Trigger.ACTIVATED:
                return "did all steps of activation"
            case Trigger.ACTIVATION_STUCK:
                return "got stuck at a step of activation"
            case Trigger.ACCOUNT_FIRST_EVENT:
                return "had a first event"
            case Trigger.SCORE_CROSSED:
                verb = "rose to at least" if tells_entered(subscription) else "fell below"
                return f"{verb} {subscription.threshold:g}"
        verb = "rose" if subscription.direction == "up" else "fell"
        return f"{verb} by {subscription.threshold:g} points or more"


def about_product(
    subscription: Subscription,
    text: str,
    path: str,
    condition: Condition | None,
    now: datetime,
) -> Draft:
    """The message that a condition of the product holds, or no longer does."""
    trigger, product = Trigger(subscription.trigger), subscription.product
    title = f"{product.name}: {text}"
    site = subscription.destination.site_url
    page = path or reverse("admin:engagement_product_change", args=[product.pk])
    account = condition.account if condition else None
    about = {"account": _account(account, f"{site}{page}")} if account else {}
    data = messages.CONDITIONS[trigger](
        text=title,
        subscription_id=subscription.pk,
        product=_named(product),
        link=f"{site}{page}",
        holds=condition is not None,
        **(condition.numbers if condition else {}),
        **about,
    )
    # The quiet period counts messages that the condition holds.
    subject_id = (condition.subject_id or product.pk) if condition else None
    payload = messages.payload(TRIGGERS[trigger].type, now, data)
    if account is not None:
        # Forgetting the account finds the message by these.
        name = subject_name(account)
        return Draft(title, payload, "account", account.pk, account.external_id, name)
    return Draft(title, payload, subject_id=subject_id, name=product.name)


def _account(account: Account, link: str) -> messages.NotifiedSubject:
    id = account.external_id
    return messages.NotifiedSubject(
        id=account.pk, tracking_id=id, external_id=id, name=subject_name(account), link=link
    )


def test_message(destination: Destination, now: datetime) -> Draft:
    """A message that only shows that the destination works."""
    title = f"This is a test of the destination “{destination.name}”."
    data = messages.DestinationTest(text=title, product=_named(destination.product))
    return Draft(title, messages.payload(messages.TEST_TYPE, now, data))


def _named(thing: Product | Workspace | Segment | None) -> Any:
    """None only where the type of the message has no such field."""
    return thing and messages.NamedThing(id=thing.pk, name=thing.name)
