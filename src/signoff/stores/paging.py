"""Where a page of a list begins."""

from __future__ import annotations

import re

from signoff.errors import InvalidValue

LAST_NUMBER = 2**63 - 1


def page_number(after: str | None, otherwise: int) -> int:
    """Return where a page begins: the number of the last row of the page before it."""
    if after is None:
        return otherwise
    if re.fullmatch("[0-9]{1,18}", after) is None:
        raise InvalidValue("after", f"{after!r} is no page of this list; pass a page's `next`")
    return int(after)
