"""The MCP server: questions and runs as tools for agents and their users. Needs the extra ``mcp``."""
