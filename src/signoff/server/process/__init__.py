"""The server's process: uvicorn, probes, readiness, Prometheus."""
