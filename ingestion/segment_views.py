"""The HTTP side of the Segment-compatible doors, which answer as Segment's clients expect."""

from django.http import HttpResponse
from rest_framework.response import Response

from ingestion import errors
from ingestion.doors import bodies, segment
from ingestion.errors import Refused
from ingestion.views import IngestionView


class SegmentView(IngestionView):
    def refusal(self, refused: Refused, headers: dict[str, str] | None = None) -> Response:
        """The error as everywhere, and once more in the place where these clients look for it.

        RudderStack's SDK for Python sends a refused batch again and again where it finds no code.
        """
        response = errors.response(refused, headers)
        response.data |= {"code": refused.code, "message": refused.message}
        return response


class ForwardedView(SegmentView):
    door = staticmethod(segment.forwarded)


class SdkView(SegmentView):
    """A door for SDKs. Segment's for Python takes nothing but 200 for success."""

    def accepted(self) -> HttpResponse:
        return HttpResponse(b'{"success": true}', content_type="application/json")


class BatchView(SdkView):
    door = staticmethod(segment.batch)
    limit = bodies.BATCH_LIMIT


class IdentifyView(SdkView):
    door = staticmethod(segment.identify)


class GroupView(SdkView):
    door = staticmethod(segment.group)


class TrackView(SdkView):
    door = staticmethod(segment.track)


class PageView(SdkView):
    door = staticmethod(segment.page)


class ScreenView(SdkView):
    door = staticmethod(segment.screen)


class AliasView(SdkView):
    door = staticmethod(segment.alias)
