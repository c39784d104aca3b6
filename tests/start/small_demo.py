"""``manage.py`` with a demo of few people, which is generated within a second.

The demo of full size takes fifteen seconds of processor time, most of them for drawing events.
"""

import os
import sys

import django

from config.main import run_command
from harness.demo import vocabulary
from harness.demo.population import Size

CONNECTED_SIZE = Size(6, 30, days=20, event_days=3)
OTHER_PRODUCTS = {
    "Ledgerly (demo)": (vocabulary.INVOICES, Size(2, 10, days=20)),
    "Fieldnote (demo)": (vocabulary.NOTES, Size(2, 10, days=20)),
}


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    from harness.demo import past_segments, rewinding
    from harness.demo import products as demo

    demo.CONNECTED_SIZE, demo.OTHER_PRODUCTS = CONNECTED_SIZE, OTHER_PRODUCTS
    demo.TRIALS, rewinding.MONTHS_BACK, past_segments.DAYS = 0, 1, 5
    run_command(sys.argv)


if __name__ == "__main__":
    main()
