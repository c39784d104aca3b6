from django.db import migrations

from engagement.models.default_segments import DEFAULT_SEGMENTS


def add_defaults(apps, schema_editor):
    """Give the workspaces that there are the segments that new ones start with."""
    Segment = apps.get_model("engagement", "Segment")
    workspaces = apps.get_model("engagement", "Workspace").objects.values_list("pk", flat=True)
    for pk in workspaces.iterator():
        Segment.objects.bulk_create(
            (
                Segment(
                    workspace_id=pk,
                    scope=default.scope,
                    name=default.name,
                    conditions=default.conditions,
                    is_default=True,
                    position=position,
                )
                for position, default in enumerate(DEFAULT_SEGMENTS, 1)
            ),
            ignore_conflicts=True,
        )


class Migration(migrations.Migration):
    dependencies = [("engagement", "0006_segments")]

    operations = [migrations.RunPython(add_defaults, migrations.RunPython.noop)]
