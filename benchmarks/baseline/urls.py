"""The one address of the baseline."""

from django.urls import path

from benchmarks.baseline.views import TrackView

urlpatterns = [path("v2/track", TrackView.as_view())]
