"""The product argument of commands."""

from django.core.management.base import CommandError

from core.ids import parse_id
from engagement.models import Product


def get_product(text: str) -> Product:
    """The product with this id, or else with this name. Raises CommandError."""
    product = Product.objects.filter(pk=parse_id(text) or 0).first()
    if product is not None:
        return product
    products = list(Product.objects.filter(name=text)[:2])
    if len(products) == 1:
        return products[0]
    if products:
        raise CommandError(f"several products are named {text!r}; use its id.")
    names = [f"{product.pk} {product.name}" for product in Product.objects.order_by("pk")[:20]]
    hint = "the products are: " + ", ".join(names) if names else "none exists yet"
    raise CommandError(f"there is no product {text!r}; {hint}.")
