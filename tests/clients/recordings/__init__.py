"""The requests of SDKs that cannot run here, written after their public sources.

Each module has the recordings of one family. A recording names the repository and the commit whose
code it follows, and makes the same story as every other one: who Ada is, what her account Initech
is, what she did, and a former id of hers. ``RECORDINGS`` has all of them.
"""

from tests.clients.recordings import pipelines, rudderstack, segment
from tests.clients.recordings.story import Recording

RECORDINGS: list[Recording] = [
    *segment.RECORDINGS,
    *rudderstack.RECORDINGS,
    *pipelines.RECORDINGS,
]
