"""Loaders of templates that drop the indentation of HTML: up to a quarter of a page's bytes.

Only the template's own text is changed, never a value that it shows. Line breaks stay, and so do
the numbers of lines in error messages.
"""

import re

from django.template import Origin
from django.template.loaders import app_directories, filesystem

_INDENTATION = re.compile(r"^[ \t]+", re.MULTILINE)


def _without_indentation(origin: Origin, contents: str) -> str:
    is_html = str(origin.template_name).endswith(".html")
    return _INDENTATION.sub("", contents) if is_html else contents


class FolderLoader(filesystem.Loader):
    def get_contents(self, origin: Origin) -> str:
        return _without_indentation(origin, super().get_contents(origin))


class AppLoader(app_directories.Loader):
    def get_contents(self, origin: Origin) -> str:
        return _without_indentation(origin, super().get_contents(origin))
