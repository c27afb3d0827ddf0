"""The worker: leases, drivers, and the entries that they write."""
