"""Which of all products matter most, looked at by the processor or on a device."""

from manykernels.products.pricing.best import Prices
from manykernels.products.pricing.search import AFFORDABLE, Pricing

__all__ = ["AFFORDABLE", "Prices", "Pricing"]
