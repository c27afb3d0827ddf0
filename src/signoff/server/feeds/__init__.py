"""Feeds: commits and inbox changes as server-sent events."""
