"""HTML pages behind answer links."""
