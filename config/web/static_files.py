"""The URLs of static files, which browsers may keep forever.

All files are below a folder that is named after the release. So a file's URL changes with the
release, its references to other files stay as they are, and a first start needs no collectstatic.
"""

from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

# Packages whose static files the pages use.
PACKAGES = ("django", "drf-spectacular-sidecar", "django-celery-beat")
DIGEST_LENGTH = 12


def release_digest(base: Path) -> str:
    """A digest of our own static files, of the images of guides, and of the packages' versions."""
    digest = sha256()
    for name in PACKAGES:
        digest.update(f"{name} {version(name)}\n".encode())
    own = [*base.glob("*/static/**/*"), *base.glob("docs/images/*")]
    for path in sorted(own):
        if path.is_file():
            digest.update(f"{path.relative_to(base)}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:DIGEST_LENGTH]
