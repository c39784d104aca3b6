"""Batches are noted before the work on them starts."""

import django.contrib.postgres.fields
from django.db import migrations, models

# Written and deleted with each batch: compressing the numbers would cost more than it saves.
UNCOMPRESSED = """
    ALTER TABLE ingestion_claimedbatch ALTER COLUMN message_ids SET STORAGE EXTERNAL;
"""


class Migration(migrations.Migration):

    dependencies = [
        ('ingestion', '0009_too_many_traits'),
    ]

    operations = [
        migrations.CreateModel(
            name='ClaimedBatch',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('message_ids', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None)),
                ('attempts', models.PositiveSmallIntegerField()),
                ('claimed_at', models.DateTimeField(null=True)),
            ],
        ),
        migrations.RunSQL(UNCOMPRESSED, migrations.RunSQL.noop),
    ]
