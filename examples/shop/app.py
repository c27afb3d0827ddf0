"""The app of the shop's workflows. It has a group of its own, so no other example's worker takes its runs."""

from __future__ import annotations

import os

from signoff import Signoff

app = Signoff(os.environ.get("SIGNOFF_STORE", "sqlite:///signoff.db"), group="shop")
