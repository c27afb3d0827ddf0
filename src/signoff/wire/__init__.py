"""Formats and connections that clients, servers and stores share: records as JSON, SSE, strict JSON, HTTP."""
