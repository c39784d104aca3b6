"""The empty view where the service has its track door."""

from django.urls import path

from benchmarks.empty.views import EmptyView

urlpatterns = [path("v2/track", EmptyView.as_view())]
