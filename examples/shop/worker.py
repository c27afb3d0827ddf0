"""All of the shop's workflows. ``signoff worker examples.shop.worker:app`` runs them."""

from __future__ import annotations

from examples.shop import (
    assistant,
    campaign,
    complaint,
    order,
    provider,
    refund,
    release,
    shipping,
    stock,
    supplier,
)
from examples.shop.app import app

__all__ = [
    "app",
    "assistant",
    "campaign",
    "complaint",
    "order",
    "provider",
    "refund",
    "release",
    "shipping",
    "stock",
    "supplier",
]
