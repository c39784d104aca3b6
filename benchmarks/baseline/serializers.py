"""Checks a track request."""

from typing import Any

from rest_framework import serializers


class TrackSerializer(serializers.Serializer[dict[str, Any]]):
    userId = serializers.CharField(max_length=512)
    event = serializers.CharField(max_length=256)
    timestamp = serializers.DateTimeField()
    properties = serializers.DictField(required=False)
