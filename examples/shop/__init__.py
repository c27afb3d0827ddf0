"""A small shop's everyday decisions, one workflow a file. See README.md."""
