"""Writes features: their names, and which events belong to them."""

from collections.abc import Collection

from django.db import transaction

from engagement.models import EventName, Feature
from engagement.orders import storage
from trends.models import UsageDay
from trends.usage import nights


@transaction.atomic
def set_events(feature: Feature, names: Collection[str]) -> None:
    """Have these events, and no others, belong to the feature. Names that nobody has sent yet are
    created. The figures of features are counted again."""
    own = EventName.objects.filter(product=feature.product_id)
    before = set(own.filter(feature=feature).values_list("name", flat=True))
    if before == set(names):
        return
    own.filter(feature=feature).exclude(name__in=names).update(feature=None)
    EventName.objects.bulk_create(
        [EventName(product_id=feature.product_id, name=name) for name in sorted(names)],
        ignore_conflicts=True,
    )
    own.filter(name__in=names).update(feature=feature)
    _delete_figures(feature)
    nights.count_again(feature.product_id)


@transaction.atomic
def delete(feature: Feature) -> None:
    """Delete the feature. Its events go on without one."""
    EventName.objects.filter(product=feature.product_id, feature=feature).update(feature=None)
    _delete_figures(feature)
    Feature.objects.filter(product=feature.product_id, pk=feature.pk).delete()


def _delete_figures(feature: Feature) -> None:
    storage.forget_feature(feature.product_id, feature.pk)
    UsageDay.objects.filter(product=feature.product_id, feature_id=feature.pk).delete()
