"""Nothing: stored orders have taken the place of a table that no release had."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("engagement", "0061_one_index_of_requests")]
    operations: list[object] = []
