"""Limits on the share of a server that one client may use."""
