"""Channels that notify people and other systems of questions."""
