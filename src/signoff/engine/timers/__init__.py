"""Timers, deadlines, schedules and retention."""
