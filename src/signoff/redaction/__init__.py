"""What is hidden of payloads where they leave a server. The store, workers and workflows have everything as it is."""

from signoff.redaction.paths import PLACEHOLDER
from signoff.redaction.records import Redaction

__all__ = ["PLACEHOLDER", "Redaction"]
