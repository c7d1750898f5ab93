"""Which of all products matter most, looked at by the processor or on a device."""

from manykernels.products.pricing.best_products import Prices
from manykernels.products.pricing.pricing_search import AFFORDABLE, Pricing

__all__ = ["AFFORDABLE", "Prices", "Pricing"]
