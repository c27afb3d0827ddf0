"""Anchors of the audit trail: checkpoints of each namespace's chain, kept outside the database."""
