"""Conversations: sessions, their turns, and their history."""
