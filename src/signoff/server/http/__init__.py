"""Requests and responses: bodies, headers, hosts, ETags, problems."""
