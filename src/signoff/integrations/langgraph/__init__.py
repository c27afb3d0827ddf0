"""LangGraph on Signoff: a checkpointer on Signoff's store, and graphs in durable runs. Needs ``signoff[langgraph]``."""

from signoff.integrations.langgraph.graph_questions import DecisionNotAllowed
from signoff.integrations.langgraph.graph_runs import run_graph
from signoff.integrations.langgraph.saver import SignoffSaver

__all__ = ["DecisionNotAllowed", "SignoffSaver", "run_graph"]
