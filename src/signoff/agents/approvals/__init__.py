"""Approvals of tool calls: policies, arguments, edits, and tools that changed meanwhile."""
