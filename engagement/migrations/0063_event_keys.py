"""Gives each partition of events a key of its own, so that a packed one needs none."""

from typing import Any

from django.db import migrations, transaction

CHECK = "engagement_event_days"

PARTITIONS = r"""
    SELECT c.oid::regclass::text, pg_get_expr(c.relpartbound, c.oid), b[1], b[2],
           EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = c.oid AND k.conname = %s)
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    LEFT JOIN regexp_match(pg_get_expr(c.relpartbound, c.oid), $$FROM \('(.+)'\) TO \('(.+)'\)$$) b
        ON true
    WHERE i.inhparent = 'engagement_event'::regclass
    ORDER BY b IS NULL, 1
"""
HAS_KEY = """
    SELECT EXISTS (SELECT FROM pg_constraint
                   WHERE conrelid = 'engagement_event'::regclass AND contype = 'p')
"""


def prove_days(apps: Any, schema_editor: Any) -> None:
    """Prove to the server which days each partition has, while others write to it: the server then
    puts it back without reading it."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(HAS_KEY)
        if not cursor.fetchone()[0]:
            return
        cursor.execute(PARTITIONS, [CHECK])
        for table, _, start, end, is_proved in cursor.fetchall():
            if start and not is_proved:
                cursor.execute(
                    f"ALTER TABLE {table} ADD CONSTRAINT {CHECK} CHECK"
                    f" (occurred_at >= '{start}' AND occurred_at < '{end}') NOT VALID"
                )
            if start:
                cursor.execute(f"ALTER TABLE {table} VALIDATE CONSTRAINT {CHECK}")


def divide_key(apps: Any, schema_editor: Any) -> None:
    """Take the partitions off, which then own their keys, and put them back without the parent's.
    Recording and readers of events wait meanwhile, which takes no time that depends on events."""
    with transaction.atomic(), schema_editor.connection.cursor() as cursor:
        cursor.execute("LOCK TABLE engagement_event IN ACCESS EXCLUSIVE MODE")
        cursor.execute(HAS_KEY)
        if not cursor.fetchone()[0]:
            return
        cursor.execute(PARTITIONS, [CHECK])
        partitions = cursor.fetchall()
        for table, *_ in partitions:
            cursor.execute(f"ALTER TABLE engagement_event DETACH PARTITION {table}")
        cursor.execute("ALTER TABLE engagement_event DROP CONSTRAINT engagement_event_pkey")
        # The default partition comes last, or the server would read it for each of the others.
        for table, bounds, _, _, is_proved in partitions:
            cursor.execute(f"ALTER TABLE engagement_event ATTACH PARTITION {table} {bounds}")
            if is_proved:
                cursor.execute(f"ALTER TABLE {table} DROP CONSTRAINT {CHECK}")


class Migration(migrations.Migration):
    # A run that was killed is run again from its beginning.
    atomic = False

    dependencies = [("engagement", "0062_never_used")]

    operations = [
        migrations.RunPython(prove_days, migrations.RunPython.noop),
        migrations.RunPython(divide_key, migrations.RunPython.noop),
    ]
