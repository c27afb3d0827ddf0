"""Checks of a deployment, with remedies: ``signoff doctor``."""
