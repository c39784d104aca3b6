import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.expressions
import engagement.models.search
from django.db import migrations, models

# The trigrams' hashes: half the size of the trigrams themselves. The hash is the one that divides
# tables into partitions, so it stays the same in later versions of PostgreSQL.
CREATE_GRAMS = """
    CREATE FUNCTION engagement_search_grams(seed bigint, text text) RETURNS bigint[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
        SELECT array(SELECT hashtextextended(substr(text, i, 3), seed)
                     FROM generate_series(1, length(text) - 2) AS i)
    $$
"""
# The users and accounts that there are get their entries in the background.
OPEN_BACKLOG = """
    INSERT INTO engagement_searchbacklog (product_id, kind, indexed_until, opened_at)
    SELECT p.id, k.kind, 0, now() FROM engagement_product p, (VALUES (0), (1)) AS k(kind)
"""


class Migration(migrations.Migration):

    dependencies = [
        ('engagement', '0021_aliases'),
    ]

    operations = [
        migrations.RunSQL(CREATE_GRAMS, "DROP FUNCTION engagement_search_grams"),
        migrations.CreateModel(
            name='SearchBacklog',
            fields=[
                ('pk', models.CompositePrimaryKey('product_id', 'kind', blank=True, editable=False, primary_key=True, serialize=False)),
                ('kind', models.SmallIntegerField(choices=[(0, 'Account'), (1, 'User')])),
                ('indexed_until', models.BigIntegerField(default=0)),
                ('opened_at', models.DateTimeField()),
                ('product', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, to='engagement.product')),
            ],
        ),
        migrations.CreateModel(
            name='SearchEntry',
            fields=[
                ('pk', models.CompositePrimaryKey('product_id', 'kind', 'subject_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('kind', models.SmallIntegerField(choices=[(0, 'Account'), (1, 'User')])),
                ('subject_id', models.BigIntegerField()),
                ('text', models.TextField()),
                ('product', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, to='engagement.product')),
            ],
            options={
                'indexes': [django.contrib.postgres.indexes.GinIndex(engagement.models.search.SearchGrams(django.db.models.expressions.CombinedExpression(django.db.models.expressions.CombinedExpression(models.F('product_id'), '*', models.Value(2)), '+', models.F('kind')), models.F('text')), name='search_grams')],
            },
        ),
        migrations.RunSQL(OPEN_BACKLOG, migrations.RunSQL.noop),
    ]
