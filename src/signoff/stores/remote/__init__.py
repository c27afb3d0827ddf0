"""The remote store: the store contract over HTTP."""
