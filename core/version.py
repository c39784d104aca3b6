"""The release number of the service. The changelog says what each release changed."""

from typing import Final

VERSION: Final = "1.0.0"
