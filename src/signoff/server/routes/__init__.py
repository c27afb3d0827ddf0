"""Every route of the HTTP API."""
