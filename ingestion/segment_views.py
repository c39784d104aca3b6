"""The HTTP side of the Segment-compatible doors, which answer as Segment's clients expect."""

from django.http import HttpResponse
from rest_framework.response import Response

from ingestion import errors
from ingestion.doors import bodies, segment
from ingestion.errors import IngestionError
from ingestion.views import IngestionView


class SegmentIngestionView(IngestionView):
    def refusal(self, refused: IngestionError, headers: dict[str, str] | None = None) -> Response:
        """The error as everywhere, and once more in the place where these clients look for it.

        RudderStack's SDK for Python sends a refused batch again and again where it finds no code.
        """
        response = errors.error_response(refused, headers)
        response.data |= {"code": refused.code, "message": refused.message}
        return response


class SegmentWebhookView(SegmentIngestionView):
    door = staticmethod(segment.webhook)


class SegmentSdkView(SegmentIngestionView):
    """A door for SDKs. Segment's for Python takes nothing but 200 for success."""

    def accepted(self) -> HttpResponse:
        return HttpResponse(b'{"success": true}', content_type="application/json")


class SegmentBatchView(SegmentSdkView):
    door = staticmethod(segment.batch)
    limit = bodies.MAX_BATCH_BODY_BYTES


class SegmentIdentifyView(SegmentSdkView):
    door = staticmethod(segment.identify)


class SegmentGroupView(SegmentSdkView):
    door = staticmethod(segment.group)


class SegmentTrackView(SegmentSdkView):
    door = staticmethod(segment.track)


class SegmentPageView(SegmentSdkView):
    door = staticmethod(segment.page)


class SegmentScreenView(SegmentSdkView):
    door = staticmethod(segment.screen)


class SegmentAliasView(SegmentSdkView):
    door = staticmethod(segment.alias)
