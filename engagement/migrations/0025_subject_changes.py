import django.db.models.deletion
from django.db import migrations, models

# Room for new versions of rows on their own page, so that no index has to follow (HOT).
LEAVE_ROOM = "ALTER TABLE engagement_subjectchange SET (fillfactor = 70)"


class Migration(migrations.Migration):

    dependencies = [
        ('engagement', '0024_stored_orders'),
    ]

    operations = [
        migrations.CreateModel(
            name='ChangeStamp',
            fields=[
                ('product', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, primary_key=True, serialize=False, to='engagement.product')),
                ('stamp', models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name='SubjectChange',
            fields=[
                ('pk', models.CompositePrimaryKey('product_id', 'kind', 'subject_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('kind', models.SmallIntegerField(choices=[(0, 'Account'), (1, 'User')])),
                ('subject_id', models.BigIntegerField()),
                ('stamp', models.BigIntegerField()),
                ('product', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, to='engagement.product')),
            ],
        ),
        migrations.RunSQL(LEAVE_ROOM, migrations.RunSQL.noop),
    ]
