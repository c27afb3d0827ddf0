"""The operations on runs, questions and schedules, on a store in this process."""
