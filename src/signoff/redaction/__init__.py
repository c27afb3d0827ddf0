"""Redaction: hides parts of payloads that leave a server. The store, workers and workflows keep the full payloads."""

from signoff.redaction.hidden_values import PLACEHOLDER
from signoff.redaction.records import Redaction
from signoff.redaction.redactor import Redactor

__all__ = ["PLACEHOLDER", "Redaction", "Redactor"]
