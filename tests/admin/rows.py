"""A product with a row on every admin page, all named after the product."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from access.models import TrailEntry
from core.credentials import digest
from destinations.models import RecordDestination, RecordLink, RecordRun
from engagement import messages
from engagement.metric_names import Scope
from engagement.models import (
    Account,
    AccountEngagement,
    EventName,
    EventWeight,
    Feature,
    Product,
    ScoreSet,
    Segment,
    User,
    UserEngagement,
    Workspace,
)
from engagement.scopes import get_kind
from engagement.search import entries
from exports.models import ExportFile, ExportRun, ScheduledExport
from ingestion.models import (
    DropCount,
    DroppedMessage,
    DropReason,
    ForgetKey,
    InboxMessage,
    IngestionKey,
    QuarantinedMessage,
)
from ingestion.payloads import encode
from marketplace.models import Connection, FailedRecord, SyncRun
from notifications.models import (
    Delivery,
    Destination,
    Digest,
    OutboxMessage,
    Subscription,
    WatchedMember,
)
from notifications.watching.watches import assign_watch
from readapi.models import ApiToken

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Rows:
    product: Product
    workspace: Workspace
    segment: Segment
    event_name: EventName
    feature: Feature
    key: IngestionKey
    forget_key: ForgetKey
    token: ApiToken
    account: Account
    user: User
    waiting: InboxMessage
    quarantined: QuarantinedMessage
    dropped: DroppedMessage
    drop_count: DropCount
    connection: Connection
    subscription: Subscription
    digest: Digest
    message: OutboxMessage
    export_run: ExportRun
    record_run: RecordRun
    trail_entry: TrailEntry

    def pages(self) -> list[tuple[str, int]]:
        """The name of each admin page and the id of its row."""
        return [
            ("engagement_product", self.product.pk),
            ("engagement_workspace", self.workspace.pk),
            ("engagement_segment", self.segment.pk),
            ("engagement_feature", self.feature.pk),
            ("engagement_eventname", self.event_name.pk),
            ("engagement_account", self.account.pk),
            ("engagement_user", self.user.pk),
            ("ingestion_ingestionkey", self.key.pk),
            ("ingestion_forgetkey", self.forget_key.pk),
            ("ingestion_inboxmessage", self.waiting.pk),
            ("ingestion_quarantinedmessage", self.quarantined.pk),
            ("ingestion_droppedmessage", self.dropped.pk),
            ("ingestion_dropcount", self.drop_count.pk),
            ("ingestion_ingestionlog", self.product.pk),
            ("readapi_apitoken", self.token.pk),
            ("engagement_trailentry", self.trail_entry.pk),
            ("marketplace_connection", self.connection.pk),
            ("notifications_subscription", self.subscription.pk),
            ("notifications_destination", self.subscription.destination_id),
            ("notifications_digest", self.digest.pk),
            ("notifications_outboxmessage", self.message.pk),
            ("exports_scheduledexport", self.export_run.export_id),
            ("exports_exportrun", self.export_run.pk),
            ("destinations_recorddestination", self.record_run.destination_id),
            ("destinations_recordrun", self.record_run.pk),
        ]


def fill(product: Product, number: int = 1) -> Rows:
    """Rows of *product*. *number* gives several products different ids."""
    # Far from the numbers of the arrival sequence.
    place = 1_000_000 + number
    name = product.name.lower()
    workspace = product.workspaces.get()
    workspace.scores = ScoreSet.objects.create(
        product=product,
        workspace=workspace,
        state=ScoreSet.State.CURRENT,
        lookback_days=workspace.lookback_days,
        default_weight=workspace.default_weight,
        scored_day=NOON.date(),
        user_benchmark=100,
        account_benchmark=200,
    )
    workspace.save(update_fields=["scores"])
    feature = Feature.objects.create(product=product, name=f"{name} feature")
    event_name = EventName.objects.create(product=product, name=f"{name} event", feature=feature)
    EventWeight.objects.create(workspace=workspace, event_name=event_name, weight=5)
    key = IngestionKey.create(product, f"{name} key")
    account = an_account(product, f"{name}-account", workspace)
    user = a_user(product, f"{name}-user", workspace, account)
    segment = Segment.objects.create(
        workspace=workspace,
        scope=Segment.Scope.USER,
        name=f"{name} segment",
        conditions=[
            {"kind": "event", "event": event_name.name, "operator": "not_done"},
            {"kind": "trait", "trait": "plan", "operator": "is_set"},
        ],
    )
    subscription = a_subscription(segment, user)
    return Rows(
        product=product,
        workspace=workspace,
        segment=segment,
        event_name=event_name,
        feature=feature,
        key=key,
        forget_key=ForgetKey.create(product, f"{name} forget key"),
        token=ApiToken.create(product, f"{name} token"),
        account=account,
        user=user,
        waiting=waiting(key, messages.Track(user.external_id, event_name.name, NOON)),
        quarantined=quarantined(product, place, key, user.external_id),
        dropped=DroppedMessage.objects.create(
            id=place,
            product=product,
            reason=DropReason.DUPLICATE,
            key_hint=key.hint,
            kind="track",
            user_external_id=user.external_id,
            event=event_name.name,
            message_id=f"{name}-message",
            received_at=NOON,
            dropped_at=NOON,
        ),
        drop_count=DropCount.objects.create(
            product=product, day=NOON.date(), reason=DropReason.DUPLICATE, count=1
        ),
        connection=a_connection(product),
        subscription=subscription,
        digest=Digest.objects.create(
            product=product,
            workspace=workspace,
            destination=subscription.destination,
        ),
        message=OutboxMessage.objects.get(subscription_id=subscription.pk),
        export_run=an_export_run(workspace),
        record_run=a_record_run(account, workspace),
        trail_entry=TrailEntry.objects.create(
            product=product,
            person="maya",
            action=TrailEntry.Action.CHANGED,
            kind="segment",
            object_id=segment.pk,
            object_name=segment.name,
            changes={"name": ["Old", segment.name]},
        ),
    )


def a_subscription(segment: Segment, user: User) -> Subscription:
    """A subscription to the segment with a message that was delivered at the first attempt."""
    product = segment.workspace.product
    name = product.name.lower()
    destination = Destination.objects.create(
        product=product,
        kind=Destination.Kind.WEBHOOK,
        name=f"{name} hook",
        # Not allowed, so testing it fails at once.
        address="https://127.0.0.1/planted-path",
        address_hint=f"{name}.example/…",
        signing_secrets="whsec_cGxhbnRlZA==",
        state=Destination.State.ACTIVE,
        verified_at=NOON,
    )
    subscription = Subscription.objects.create(
        product=product,
        workspace=segment.workspace,
        trigger="segment_entered",
        segment=segment,
        destination=destination,
    )
    assign_watch(subscription)
    assert subscription.watch is not None
    WatchedMember.objects.create(product=product, watch=subscription.watch, subject_id=user.pk)
    message = OutboxMessage.objects.create(
        message_id=f"msg_{name}",
        product=product,
        destination=destination,
        subscription=subscription,
        scope="user",
        subject_id=user.pk,
        external_id=user.external_id,
        name=user.external_id,
        title=f"{user.external_id} entered {segment}.",
        payload={"type": "segment.entered", "data": {"user": {"name": user.external_id}}},
        state=OutboxMessage.State.DELIVERED,
        attempts=1,
        next_attempt_at=NOON,
        finished_at=NOON,
    )
    Delivery.objects.create(
        product=product,
        message=message,
        attempted_at=NOON,
        outcome=Delivery.Outcome.DELIVERED,
        status=200,
        seconds=0.25,
        response=f"ok, {name}",
    )
    return subscription


def an_export_run(workspace: Workspace) -> ExportRun:
    """A run of an export that is done, with a file."""
    product = workspace.product
    name = product.name.lower()
    export = ScheduledExport.objects.create(
        product=product,
        workspace=workspace,
        name=f"{name} export",
        tables=["accounts"],
        store_kind=ScheduledExport.StoreKind.S3,
        # Not allowed, so verifying it fails at once.
        endpoint="https://127.0.0.1",
        bucket=f"{name}-bucket",
        access_key_id="planted-id",
        secret_access_key="planted-secret",
        verified_at=NOON,
    )
    run = ExportRun.objects.create(
        product=product,
        export=export,
        state=ExportRun.State.DONE,
        requested_at=NOON,
        due_at=NOON,
        started_at=NOON,
        finished_at=NOON + timedelta(seconds=3),
        folder="2026-09-24T120000Z",
        until={"run": 1},
        rows=1,
        bytes=100,
    )
    ExportFile.objects.create(
        product=product,
        run=run,
        table="accounts",
        name="accounts-00001.csv.gz",
        rows=1,
        bytes=100,
        sha256="0" * 64,
    )
    return run


def a_record_run(account: Account, workspace: Workspace) -> RecordRun:
    """A dry run of a CRM in which the account's row was rejected."""
    product, name = workspace.product, workspace.product.name.lower()
    destination = RecordDestination.objects.create(
        product=product,
        workspace=workspace,
        vendor="hubspot",
        key=f"{name}-planted-key",
        match=[{"source": "domain", "field": "domain"}],
        mapping=[{"source": "score", "field": "eds_score", "rule": "clear"}],
        fields=[
            {"name": "eds_score", "label": f"{name} score", "type": "number"},
            {"name": "domain", "label": "Domain", "type": "text"},
        ],
        base_url="https://eds.example",
        state=RecordDestination.State.ACTIVE,
    )
    run = RecordRun.objects.create(
        product=product,
        destination=destination,
        kind=RecordRun.Kind.DRY,
        state=RecordRun.State.DONE,
        requested_by=f"{name} maya",
        requested_at=NOON,
        started_at=NOON,
        finished_at=NOON + timedelta(seconds=3),
        rejected=1,
        calls=3,
        sample=[[f"{name} account", "Score", None, 35]],
    )
    RecordLink.objects.create(
        product=product,
        destination=destination,
        subject_id=account.pk,
        external_id=account.external_id,
        remote_id="501",
        state=RecordLink.State.REJECTED,
        error=f"{name} breaks a rule.",
        run=run.pk,
    )
    return run


def an_account(product: Product, external_id: str, workspace: Workspace) -> Account:
    assert workspace.scores is not None
    account = Account.objects.create(
        product=product,
        external_id=external_id,
        traits={"name": f"{external_id} name", "domain": f"{external_id}.example"},
        is_identified=True,
        first_seen_at=NOON,
        last_seen_at=NOON,
    )
    AccountEngagement.objects.create(
        product=product,
        score_set=workspace.scores,
        account=account,
        raw=200,
        event_count=40,
        active_days=3,
        active_users=2,
    )
    return account


def a_user(
    product: Product, external_id: str, workspace: Workspace, account: Account, raw: int = 100
) -> User:
    assert workspace.scores is not None
    user = User.objects.create(
        product=product,
        external_id=external_id,
        account=account,
        traits={"email": f"{external_id}@Example.com", "seats": 3, "plan": {"tier": "<b>pro</b>"}},
        is_identified=True,
        first_seen_at=NOON,
        last_seen_at=NOON,
    )
    UserEngagement.objects.create(
        product=product,
        score_set=workspace.scores,
        user=user,
        raw=raw,
        event_count=20,
        active_days=2,
    )
    return user


def waiting(key: IngestionKey | None, message: messages.Message | bytes) -> InboxMessage:
    payload = message if isinstance(message, bytes) else encode(message)
    return InboxMessage.objects.create(
        received_at=NOON,
        key_digest=digest(key.secret if key else "nobody's"),
        key_hint=key.hint if key else "",
        payload=payload,
    )


def quarantined(
    product: Product | None, number: int, key: IngestionKey, user_id: str = "someone"
) -> QuarantinedMessage:
    return QuarantinedMessage.objects.create(
        id=number,
        product=product,
        received_at=NOON,
        key_digest=digest(key.secret),
        key_hint=key.hint,
        payload=encode(messages.Identify(user_id, NOON, {"a": 1})),
        attempts=5,
        error="DataError: it does not fit\nDETAIL: at all",
        quarantined_at=NOON,
    )


def a_connection(product: Product, **fields: object) -> Connection:
    """An active connection of the product, and a sync with a failed record."""
    name = product.name.lower()
    connection = Connection.objects.create(
        **{
            "product": product,
            "state": Connection.State.ACTIVE,
            "state_changed_at": NOON,
            "user_name": f"reports@{name}.example",
            "api_token": f"{name}-planted-token",
            "vendor_id": "1234567",
            "app_product_id": UUID(int=product.pk),
            "developer_id": f"{name}-developer",
            "app_name": f"{name} lens",
            "app_key": f"com.{name}.lens",
            "last_success_at": NOON,
            **fields,
        }
    )
    run = SyncRun.objects.create(
        connection=connection,
        generation=connection.generation,
        kind=SyncRun.Kind.FIRST,
        state=SyncRun.State.SUCCEEDED,
        requested_at=NOON,
        due_at=NOON,
        started_at=NOON,
        finished_at=NOON + timedelta(seconds=75),
        pages=11,
        seen=503,
        imported=480,
        unchanged=10,
        skipped=12,
        failed=1,
        without_cloud_id=9,
        accounts_updated=77,
        accounts_created=401,
    )
    FailedRecord.objects.create(run=run, license_key=f"E-{name}", reason="It is not readable.")
    return connection


def index_for_search(product: Product) -> None:
    """Have the search know the product's users and accounts, as scoring would."""
    scopes: tuple[Scope, ...] = ("account", "user")
    for scope in scopes:
        subjects = get_kind(scope).model._default_manager.filter(product=product)
        entries.index(product.pk, scope, list(subjects.values_list("pk", flat=True)))
