"""New words for outcomes. Columns and stored values stay: code of the last release runs on."""

from django.db import migrations, models

REASONS = [
    ("unknown_key", "Unknown key: no product has this ingestion key"),
    ("revoked_key", "Revoked key: this ingestion key is no longer valid"),
    ("missing_key", "Missing key: the request carried no ingestion key"),
    ("duplicate", "Duplicate: a message with this message id was already received"),
    (
        "forgotten",
        "Forgotten on request: it names a user or an account that was deleted permanently",
    ),
    ("deleted_product", "Deleted product: the product of this key was deleted"),
    ("anonymous", "Anonymous: it names no user"),
    ("alias", "Alias: its two ids were not joined"),
    (
        "too_many_traits",
        "Too many traits: the user or account has no room for more; the rest was recorded",
    ),
    ("unusable", "Invalid message: it could not be understood"),
    ("read_token", "Read token: the request carried a read token as its ingestion key"),
]


class Migration(migrations.Migration):
    dependencies = [("ingestion", "0012_live_view_and_refused_requests")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameField("importedfile", "repeated", "duplicates"),
                migrations.AlterField(
                    "importedfile",
                    "duplicates",
                    models.BigIntegerField(db_column="repeated", default=0),
                ),
                migrations.RenameField("importedfile", "bad", "invalid"),
                migrations.AlterField(
                    "importedfile", "invalid", models.BigIntegerField(db_column="bad", default=0)
                ),
                migrations.AlterField(
                    "dropcount", "reason", models.CharField(choices=REASONS, max_length=20)
                ),
                migrations.AlterField(
                    "droppedmessage", "reason", models.CharField(choices=REASONS, max_length=20)
                ),
                migrations.AlterField(
                    "hourcount",
                    "reason",
                    models.CharField(blank=True, choices=REASONS, max_length=20),
                ),
            ]
        )
    ]
