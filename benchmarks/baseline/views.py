"""One insert and one message to Redis for each request."""

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from benchmarks.baseline.models import ReceivedEvent
from benchmarks.baseline.serializers import TrackSerializer
from benchmarks.baseline.tasks import process


class TrackView(APIView):
    def post(self, request: Request) -> Response:
        serializer = TrackSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        fields = serializer.validated_data
        received = ReceivedEvent._default_manager.create(
            user_id=fields["userId"], event=fields["event"], timestamp=fields["timestamp"]
        )
        process.delay(received.pk)
        return Response(status=202)
