"""What Django's models cannot say about the large tables: order of arrival, partitions, keys."""

from django.db import migrations

ARRIVAL_SEQUENCE = """
    CREATE SEQUENCE engagement_arrival AS bigint;
"""

# One index is both the key and the way to a user's timeline.
EVENT_TABLE = """
    CREATE TABLE engagement_event (
        product_id bigint NOT NULL,
        user_id bigint NOT NULL,
        occurred_at timestamptz NOT NULL,
        arrival bigint NOT NULL,
        account_id bigint,
        event_name_id bigint NOT NULL,
        received_at timestamptz NOT NULL,
        PRIMARY KEY (product_id, user_id, occurred_at, arrival)
    ) PARTITION BY RANGE (occurred_at);
    CREATE TABLE engagement_event_default PARTITION OF engagement_event DEFAULT;
"""

# The distribution column of a sharded database must be part of every key.
PRODUCT_IN_KEYS = """
    ALTER TABLE engagement_user
        DROP CONSTRAINT engagement_user_pkey, ADD PRIMARY KEY (id, product_id);
    ALTER TABLE engagement_account
        DROP CONSTRAINT engagement_account_pkey, ADD PRIMARY KEY (id, product_id);
"""
ID_ALONE_IN_KEYS = """
    ALTER TABLE engagement_user DROP CONSTRAINT engagement_user_pkey, ADD PRIMARY KEY (id);
    ALTER TABLE engagement_account DROP CONSTRAINT engagement_account_pkey, ADD PRIMARY KEY (id);
"""

# Room on each page, so that counting up rewrites a row beside itself and touches no index.
# Autovacuum comes early to the tables that are written and emptied all the time.
ROOM_FOR_UPDATES = """
    ALTER TABLE engagement_dailycount SET (fillfactor = 80);
    ALTER TABLE engagement_user SET (fillfactor = 80);
    ALTER TABLE engagement_account SET (fillfactor = 80);
    ALTER TABLE engagement_stalemark SET (
        autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50000);
"""


class Migration(migrations.Migration):
    dependencies = [("engagement", "0001_initial")]

    operations = [
        migrations.RunSQL(ARRIVAL_SEQUENCE, "DROP SEQUENCE engagement_arrival"),
        migrations.RunSQL(EVENT_TABLE, "DROP TABLE engagement_event"),
        migrations.RunSQL(PRODUCT_IN_KEYS, ID_ALONE_IN_KEYS),
        migrations.RunSQL(ROOM_FOR_UPDATES, migrations.RunSQL.noop),
    ]
