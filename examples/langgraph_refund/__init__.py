"""A LangChain agent that asks before it refunds, as a durable run."""
