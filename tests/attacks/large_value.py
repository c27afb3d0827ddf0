"""A large value."""

from __future__ import annotations

from typing import Final

ROWS: Final = [
    {"order_id": number, "customer": f"customer-{number % 97}", "amount": number / 7, "status": "shipped"}
    for number in range(10_500)
]
"""About 0.9 MiB as JSON, and some 5 MiB as Python has it."""
