"""A view that does nothing, as Django REST framework's users would write it."""

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView


class EmptyView(APIView):
    def post(self, request: Request) -> Response:
        return Response(status=202)
