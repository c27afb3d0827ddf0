"""Stand-ins for the shop's other systems. Nothing here leaves this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from signoff import current_step

FEED_IS_BACK_AT_ATTEMPT = 3


class SupplierDown(Exception):
    """A supplier's server gives no proper response. It will later."""


class FeedUnreadable(Exception):
    """A supplier's feed is broken. Fetching it again does not help."""


@dataclass(frozen=True)
class Order:
    """A customer's order."""

    id: str
    customer: str
    ordered: str


@dataclass(frozen=True)
class Article:
    """A line of a supplier's feed."""

    number: str
    pieces: int


ORDERS = {
    "o-1038": Order("o-1038", "Ida Berg", "a pair of socks"),
    "o-1042": Order("o-1042", "Mara Lindqvist", "a walnut desk lamp and two bulbs"),
    "o-1043": Order("o-1043", "Jonas Weber", "an espresso machine"),
    "o-1044": Order("o-1044", "Priya Nair", "a winter coat"),
    "o-1050": Order("o-1050", "Tomas Havel", "a garden table, two weeks late"),
}

COMPANIES = {"Alpenholz": {"name": "Alpenholz GmbH", "country": "Austria", "vat_id": "ATU62348907"}}

FEEDS = {"Lumen": [Article("L-100", 140), Article("L-220", 36), Article("L-305", 12)]}


def fetch_order(order_id: str) -> Order:
    """Look up an order."""
    return ORDERS[order_id]


def pay_back(order_id: str, cents: int) -> str:
    """Pay money back and return the receipt. A real bank pays one idempotency key once."""
    return f"R-{current_step().idempotency_key}"


def tell_team(text: str) -> dict[str, str]:
    """Post to the team's chat and return the message. A chat has no idempotency keys: a crash may post it twice."""
    return {"channel": "#refunds", "text": text}


def deliver_mail(to: str, subject: str, text: str) -> str:
    """Send a mail and return its id, which is the same at every attempt. The recipient's server drops duplicates."""
    return f"<{current_step().idempotency_key}@shop.example>"


def look_up_company(name: str) -> dict[str, Any] | None:
    """Return a company's entry in the public register, if there is one."""
    return COMPANIES.get(name)


def book_channel(channel: str, headline: str) -> str:
    """Book a slot for a headline."""
    return f"{channel}: {headline}"


def fetch_feed(supplier: str) -> list[Article]:
    """Download a supplier's feed. One supplier's server is down at first; the feed of an unknown supplier is broken.

    Raises:
        SupplierDown: Another attempt may help.
        FeedUnreadable: Another attempt will not help.
    """
    if supplier not in FEEDS:
        raise FeedUnreadable(f"the feed of {supplier} ends in the middle of line 212")
    if current_step().attempt < FEED_IS_BACK_AT_ATTEMPT:
        raise SupplierDown(f"503 Service Unavailable from feed.{supplier.lower()}.example")
    return FEEDS[supplier]


def store_article(article: Article) -> dict[str, Any]:
    """Store an article in the shop's database, replacing an earlier row, and return its row."""
    return {"sku": article.number, "in_stock": article.pieces}


def hand_over(order_id: str, carrier: str) -> str:
    """Give a parcel to a carrier and return its tracking number."""
    return f"{carrier}-{order_id}"


def deploy(version: str) -> str:
    """Deploy a version and return its address."""
    return f"https://shop.example/?v={version}"


def issue_voucher(customer: str, cents: int) -> str:
    """Issue a voucher and return its code."""
    return f"V-{cents}-{customer.split()[0]}"
