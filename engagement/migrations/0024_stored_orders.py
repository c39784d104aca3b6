import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models


# Ids in the order of something else do not compress.
STORE_PLAIN = "ALTER TABLE engagement_orderchunk ALTER COLUMN ids SET STORAGE EXTERNAL"


class Migration(migrations.Migration):

    dependencies = [
        ('engagement', '0023_insight_numbers'),
    ]

    operations = [
        migrations.CreateModel(
            name='StoredOrder',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('scope', models.CharField(max_length=7)),
                ('column', models.CharField(max_length=520)),
                ('version', models.BigIntegerField(default=0)),
                ('row_count', models.BigIntegerField(default=0)),
                ('present_count', models.BigIntegerField(default=0)),
                ('previous_row_count', models.BigIntegerField(default=0)),
                ('previous_present_count', models.BigIntegerField(default=0)),
                ('computed_at', models.DateTimeField(null=True)),
                ('seconds', models.FloatField(default=0.0)),
                ('used_at', models.DateTimeField(null=True)),
                ('product', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, to='engagement.product')),
                ('score_set', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, to='engagement.scoreset')),
            ],
        ),
        migrations.CreateModel(
            name='OrderChunk',
            fields=[
                ('pk', models.CompositePrimaryKey('product_id', 'order_id', 'version', 'number', blank=True, editable=False, primary_key=True, serialize=False)),
                ('version', models.BigIntegerField()),
                ('number', models.IntegerField()),
                ('ids', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None)),
                ('product', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, to='engagement.product')),
                ('order', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, to='engagement.storedorder')),
            ],
        ),
        migrations.AddConstraint(
            model_name='storedorder',
            constraint=models.UniqueConstraint(fields=('score_set', 'scope', 'column'), name='stored_order_per_column'),
        ),
        migrations.RunSQL(STORE_PLAIN, migrations.RunSQL.noop),
    ]
