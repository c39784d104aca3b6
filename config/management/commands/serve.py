"""``python manage.py serve``: the web role alone."""

import logging
import os
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from config import sign_in
from config.server import gunicorn, handover
from config.setup import preflight

logger = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "Serve the ingestion API, the read API and the admin over HTTP."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
        parser.add_argument("--port", type=int, default=8000, help="port to listen on")
        parser.add_argument(
            "--only",
            choices=(handover.INGESTION, handover.PAGES),
            help="only accept data, or only serve the read API and the admin; for load balancers "
            "that route by path",
        )

    def handle(
        self, *args: Any, host: str, port: int, only: str | None = None, **options: Any
    ) -> None:
        if reason := gunicorn.port_error(host, port):
            raise CommandError(reason)
        preflight.check_secrets()
        if settings.RETIRED_SETTINGS:
            logger.warning(sign_in.retired_text(settings.RETIRED_SETTINGS))
        ingestion = settings.WEB_WORKERS if only != handover.PAGES else 0
        pages = settings.PAGE_WORKERS if only != handover.INGESTION else 0
        command = gunicorn.gunicorn_command(host, port, ingestion, pages)
        # Replace this process: it has imported modules that the workers must patch first.
        os.chdir(settings.BASE_DIR)
        os.execv(command[0], command)
