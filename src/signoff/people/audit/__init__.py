"""The audit trail: its events, its seals, and its anchors outside the database."""
