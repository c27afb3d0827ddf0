"""Answers without signing in: answer links, callbacks and resume tokens."""
