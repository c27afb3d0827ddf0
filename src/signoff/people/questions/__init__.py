"""Questions: their state, answers, edits, policies and standing approvals."""
