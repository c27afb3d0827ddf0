"""What is hidden of payloads where they leave a server. The store, workers and workflows have everything as it is."""

from signoff.redaction.hidden_values import PLACEHOLDER
from signoff.redaction.records import Redaction
from signoff.redaction.redactor import Redactor

__all__ = ["PLACEHOLDER", "Redaction", "Redactor"]
