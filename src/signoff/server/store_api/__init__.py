"""The store API for workers: access, checks and limits of `/v1/store`."""
