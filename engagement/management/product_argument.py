"""How commands are told which product they are about."""

from django.core.management.base import CommandError

from engagement.models import Product


def get_product(text: str) -> Product:
    """The product with this id, or else with this name; CommandError where that is not one."""
    if text.isascii() and text.isdigit() and len(text) < 19:
        found = Product.objects.filter(pk=int(text)).first()
        if found is not None:
            return found
    called = list(Product.objects.filter(name=text)[:2])
    if len(called) == 1:
        return called[0]
    if called:
        raise CommandError(f"several products are named {text!r}; give the id of the one you mean.")
    names = [f"{product.pk} {product.name}" for product in Product.objects.order_by("pk")[:20]]
    there = "there are: " + ", ".join(names) if names else "there is none yet"
    raise CommandError(f"there is no product {text!r}; {there}.")
