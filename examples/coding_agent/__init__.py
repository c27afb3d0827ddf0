"""A coding agent that asks for permission through MCP before it runs a command. See README.md."""
