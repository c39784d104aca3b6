#!/usr/bin/env python
"""The command line of the service: ``python manage.py up`` runs everything."""

import sys

MINIMUM_PYTHON = (3, 11)


def main() -> None:
    if sys.version_info < MINIMUM_PYTHON:
        version = ".".join(str(part) for part in sys.version_info[:3])
        sys.exit(f"error: Python 3.11 or newer is needed; this is Python {version}.")
    from config.main import run_command

    run_command(sys.argv)


if __name__ == "__main__":
    main()
