"""A small shop's everyday decisions, one workflow per file. See README.md."""
