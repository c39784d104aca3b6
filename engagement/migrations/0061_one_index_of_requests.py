import django.db.models.deletion
from django.db import migrations, models

# On a cluster it is so already.
PRODUCT_IN_KEY = """
    DO $$ BEGIN
        IF NOT EXISTS (
            SELECT FROM pg_constraint c
            JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = ANY (c.conkey)
            WHERE c.conrelid = 'engagement_stalemark'::regclass AND c.contype = 'p'
              AND a.attname = 'product_id')
        THEN
            ALTER TABLE engagement_stalemark
                DROP CONSTRAINT engagement_stalemark_pkey, ADD PRIMARY KEY (product_id, id);
        END IF;
    END $$
"""


class Migration(migrations.Migration):

    dependencies = [
        ('engagement', '0060_activation'),
    ]

    operations = [
        migrations.RunSQL(PRODUCT_IN_KEY, migrations.RunSQL.noop),
        migrations.AlterField(
            model_name='rescorerequest',
            name='product',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, to='engagement.product'),
        ),
    ]
