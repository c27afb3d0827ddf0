"""Model requests and tool calls as steps of a run."""
