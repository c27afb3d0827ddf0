"""Doors without a login: answer links, callbacks and resume tokens."""
