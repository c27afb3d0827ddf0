"""Clients: start, watch and answer runs from outside, in this process or over HTTP."""
