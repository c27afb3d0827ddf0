"""The app that the shop's workflows belong to, in a group of its own: no other example's worker takes its runs."""

from __future__ import annotations

import os

from signoff import Signoff

app = Signoff(os.environ.get("SIGNOFF_STORE", "sqlite:///signoff.db"), group="shop")
