"""The remote store: the contract over HTTP."""
