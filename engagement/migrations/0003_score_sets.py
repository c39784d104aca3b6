"""Scores in sets that are built in the background and published in one step.

Scores are derived: those of before are dropped here and computed again from the daily counts by
the first worker that runs.
"""

from django.db import migrations, models
import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime

from engagement.tenure import CREATED_TRAITS, parse_created_at

ROWS_PER_BATCH = 2_000


def note_creation(apps, schema_editor):
    """Read the creation times that traits already state, as recording does from now on."""
    for model in ("User", "Account"):
        subjects = apps.get_model("engagement", model).objects
        stating = subjects.filter(traits__has_any_keys=CREATED_TRAITS).only("traits")
        batch = []
        for subject in stating.order_by("pk").iterator(ROWS_PER_BATCH):
            subject.created_at = parse_created_at(subject.traits)
            batch.append(subject)
            if len(batch) == ROWS_PER_BATCH:
                subjects.bulk_update(batch, ["created_at"])
                batch = []
        subjects.bulk_update(batch, ["created_at"])


class Migration(migrations.Migration):
    dependencies = [("engagement", "0002_storage")]

    operations = [
        migrations.DeleteModel("UserEngagement"),
        migrations.DeleteModel("AccountEngagement"),
        migrations.RemoveField(
            model_name='workspace',
            name='account_benchmark',
        ),
        migrations.RemoveField(
            model_name='workspace',
            name='benchmark_seconds',
        ),
        migrations.RemoveField(
            model_name='workspace',
            name='benchmarks_at',
        ),
        migrations.RemoveField(
            model_name='workspace',
            name='benchmarks_stale',
        ),
        migrations.RemoveField(
            model_name='workspace',
            name='scored_day',
        ),
        migrations.RemoveField(
            model_name='workspace',
            name='user_benchmark',
        ),
        migrations.AddField(
            model_name='account',
            name='created_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='user',
            name='created_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='workspace',
            name='audience',
            field=models.JSONField(default=dict, editable=False),
        ),
        migrations.CreateModel(
            name='ScoreSet',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('state', models.CharField(choices=[('building', 'Building'), ('current', 'Current'), ('retired', 'Retired')], default='building', max_length=8)),
                ('lookback_days', models.PositiveSmallIntegerField()),
                ('default_weight', models.PositiveSmallIntegerField()),
                ('audience', models.JSONField(default=dict)),
                ('phase', models.CharField(choices=[('users', 'Users'), ('accounts', 'Accounts'), ('benchmarks', 'Benchmarks')], default='users', max_length=10)),
                ('built_until', models.BigIntegerField(default=0)),
                ('built', models.BigIntegerField(default=0)),
                ('to_build', models.BigIntegerField(null=True)),
                ('scored_day', models.DateField(null=True)),
                ('user_benchmark', models.FloatField(null=True)),
                ('user_benchmark_yesterday', models.FloatField(null=True)),
                ('user_benchmark_last_period', models.FloatField(null=True)),
                ('account_benchmark', models.FloatField(null=True)),
                ('account_benchmark_yesterday', models.FloatField(null=True)),
                ('account_benchmark_last_period', models.FloatField(null=True)),
                ('user_quantiles', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), default=list, size=None)),
                ('account_quantiles', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), default=list, size=None)),
                ('scored_names', models.IntegerField(default=0)),
                ('benchmarks_at', models.DateTimeField(null=True)),
                ('benchmarks_stale', models.BooleanField(default=True)),
                ('benchmark_seconds', models.FloatField(default=0.0)),
                ('requested_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('published_at', models.DateTimeField(null=True)),
                ('retired_at', models.DateTimeField(null=True)),
                ('product', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, to='engagement.product')),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='score_sets', to='engagement.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='ScoredEvent',
            fields=[
                ('pk', models.CompositePrimaryKey('score_set_id', 'event_name_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('weight', models.PositiveSmallIntegerField()),
                ('event_name', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, to='engagement.eventname')),
                ('score_set', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='weights', to='engagement.scoreset')),
            ],
        ),
        migrations.CreateModel(
            name='DailyBenchmark',
            fields=[
                ('pk', models.CompositePrimaryKey('score_set_id', 'day', blank=True, editable=False, primary_key=True, serialize=False)),
                ('day', models.DateField()),
                ('users', models.FloatField(null=True)),
                ('accounts', models.FloatField(null=True)),
                ('score_set', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='daily_benchmarks', to='engagement.scoreset')),
            ],
        ),
        migrations.CreateModel(
            name='AccountEngagement',
            fields=[
                ('raw', models.BigIntegerField()),
                ('raw_yesterday', models.BigIntegerField(default=0)),
                ('raw_last_period', models.BigIntegerField(default=0)),
                ('event_count', models.BigIntegerField()),
                ('active_days', models.PositiveSmallIntegerField()),
                ('name_count', models.IntegerField(default=0)),
                ('last_active_at', models.DateTimeField(null=True)),
                ('pk', models.CompositePrimaryKey('product_id', 'score_set_id', 'account_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('active_users', models.IntegerField()),
                ('total_users', models.IntegerField(default=0)),
                ('account', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='engagements', to='engagement.account')),
                ('product', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, to='engagement.product')),
                ('score_set', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, to='engagement.scoreset')),
            ],
        ),
        migrations.AddField(
            model_name='workspace',
            name='scores',
            field=models.OneToOneField(db_constraint=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='engagement.scoreset'),
        ),
        migrations.CreateModel(
            name='UserEngagement',
            fields=[
                ('raw', models.BigIntegerField()),
                ('raw_yesterday', models.BigIntegerField(default=0)),
                ('raw_last_period', models.BigIntegerField(default=0)),
                ('event_count', models.BigIntegerField()),
                ('active_days', models.PositiveSmallIntegerField()),
                ('name_count', models.IntegerField(default=0)),
                ('last_active_at', models.DateTimeField(null=True)),
                ('pk', models.CompositePrimaryKey('product_id', 'score_set_id', 'user_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('product', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, to='engagement.product')),
                ('score_set', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, to='engagement.scoreset')),
                ('user', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='engagements', to='engagement.user')),
            ],
        ),
        migrations.AddConstraint(
            model_name='scoreset',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['building', 'current', 'retired'])), name='score_set_state_known'),
        ),
        migrations.AddConstraint(
            model_name='scoreset',
            constraint=models.UniqueConstraint(condition=models.Q(('state', 'building')), fields=('workspace',), name='one_building_score_set'),
        ),
        migrations.AddConstraint(
            model_name='scoreset',
            constraint=models.UniqueConstraint(condition=models.Q(('state', 'current')), fields=('workspace',), name='one_current_score_set'),
        ),
        migrations.AddIndex(
            model_name='accountengagement',
            index=models.Index(models.F('score_set'), models.OrderBy(models.F('raw'), descending=True), models.OrderBy(models.F('account'), descending=True), name='account_ranking'),
        ),
        migrations.AddIndex(
            model_name='userengagement',
            index=models.Index(models.F('score_set'), models.OrderBy(models.F('raw'), descending=True), models.OrderBy(models.F('user'), descending=True), name='user_ranking'),
        ),
        migrations.RunPython(note_creation, migrations.RunPython.noop, elidable=True),
    ]
