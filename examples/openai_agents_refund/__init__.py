"""An agent of the OpenAI Agents SDK that asks before it pays money back. See README.md."""
