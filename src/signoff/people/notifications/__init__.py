"""Notifications: the outbox, and the channels that deliver it."""
