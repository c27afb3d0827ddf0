"""``run_graph``: a compiled graph as part of a durable run, whose interrupts are questions in the inbox."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, cast

from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolNode

from signoff import Context, RetryPolicy
from signoff.errors import RegistrationError
from signoff.integrations.langgraph.graph_questions import GraphQuestions
from signoff.integrations.langgraph.graph_steps import GraphSteps
from signoff.integrations.langgraph.saver import SignoffSaver

ONCE = RetryPolicy(max_attempts=1)


async def run_graph(
    context: Context,
    graph: Any,
    given: Any,
    *,
    thread_id: str | None = None,
    answers: Any = None,
    output: Callable[[Any], Any] | None = None,
    retry: RetryPolicy | None = None,
    step: Mapping[str, Any] | None = None,
    recursion_limit: int | None = None,
    keep_thread: bool = True,
    **terms: Any,
) -> Any:
    """Run a compiled graph, and ask people its interrupts. A waiting run uses no worker resources.

    The interrupts that are open when the graph stops are asked together. When all of them are answered, each gets its
    own answer, by id, and the graph continues. LangGraph then runs each interrupted node again from its start, so no
    node runs again before its own interrupt is answered.

    The action requests of LangChain's ``HumanInTheLoopMiddleware`` are approvals of the tool call: an approval, an edit
    (if allowed) or a rejection with the approver's note. No answer in time, or a withdrawn question, is a rejection. A
    tool that allows neither ``approve`` nor ``edit`` is asked for its result.

    Args:
        context: The context of the workflow that calls it.
        graph: The graph, compiled with ``checkpointer=SignoffSaver(app)``.
        given: Its input, as JSON.
        thread_id: Its thread; by default the run's id. A thread must not be used by two runs at once.
        answers: The type of the answers to interrupts without ``response_schema``: ``bool`` (an approval), ``str``, a
            pydantic model, a JSON Schema; or a function that returns it for the interrupt's value. By default such an
            interrupt stops the run, retryably: a text that means no would be true.
        output: Makes the result of the final state; by default the whole state as JSON, in which messages are objects.
        retry: How often a failed node is run again; by default once, as LangGraph does without a policy of its own.
        step: Other options of ``Context.step``, such as ``timeout``, or ``effect="once"``: then an operator is asked if
            the worker died while the graph ran.
        recursion_limit: LangGraph's limit of supersteps.
        keep_thread: Whether the thread's checkpoints stay when the graph has ended. Nothing else deletes them.
        terms: Arguments of ``Context.wait_for_user`` for each question: ``assignees``, ``timeout_seconds``.

    Returns:
        The final state, or what ``output`` makes of it.

    Raises:
        RegistrationError: The graph has no ``SignoffSaver``, or it has static breakpoints.
        SignalTimeout: No one answered an interrupt in time that is not a tool call.
        QuestionCancelled: Such a question was withdrawn.
        DecisionNotAllowed: A tool call was rejected, and the middleware does not allow to reject it.

    Example::

        graph = create_agent(model, tools, middleware=[HumanInTheLoopMiddleware({"refund": True})],
                             checkpointer=SignoffSaver(app))

        @app.workflow
        async def support(ctx: Context, text: str) -> str:
            state = {"messages": [{"role": "user", "content": text}]}
            return await run_graph(ctx, graph, state, output=lambda s: s["messages"][-1].text,
                                   assignees=["group:finance"], timeout_seconds=3600)
    """
    saver = _saver_of(graph)
    thread = thread_id or context.run_id
    config: dict[str, Any] = {"configurable": {"thread_id": thread}}
    if recursion_limit is not None:
        config["recursion_limit"] = recursion_limit
    steps = GraphSteps(graph, config, output)  # pyright: ignore[reportArgumentType]
    name = graph.get_name()
    options: dict[str, Any] = {"retry": retry or ONCE, **(step or {})}
    questions = GraphQuestions(context, terms, answers, _schemas(graph), name)
    progress = await context.step(f"run {name}", steps.begin, given, **options)
    while progress["raised"]:
        problem = progress.get("problem")
        values = await asyncio.gather(*(questions.ask(each, problem) for each in progress["raised"]))
        given_answers = {each["id"]: value for each, value in zip(progress["raised"], values, strict=True)}
        progress = await context.step(
            f"resume {name}", steps.resume, progress["call"], given_answers, **options
        )
    if not keep_thread:
        await context.step(f"delete the thread of {name}", saver.adelete_thread, thread)
    return progress["output"]


def _saver_of(graph: Any) -> SignoffSaver:
    if not isinstance(graph.checkpointer, SignoffSaver):
        raise RegistrationError(
            "run_graph needs a graph with Signoff's checkpointer: compile(checkpointer=SignoffSaver(app))"
        )
    if graph.interrupt_before_nodes or graph.interrupt_after_nodes:
        raise RegistrationError(
            "run_graph asks what interrupt() asks; leave out interrupt_before and interrupt_after, which ask nothing"
        )
    return graph.checkpointer


def _schemas(graph: Any) -> dict[str, dict[str, Any]]:
    """Return the schemas of the arguments of the tools of a graph and its subgraphs, which edits must match.

    Different tools of one name have none: an interrupt does not say which of them it is about.
    """
    graphs = [graph, *(each for _, each in graph.get_subgraphs(recurse=True))]
    nodes = [getattr(node, "bound", None) for each in graphs for node in each.nodes.values()]
    tools = [tool for node in nodes if isinstance(node, ToolNode) for tool in node.tools_by_name.values()]
    found: dict[str, dict[str, Any]] = {}
    for tool in tools:
        schema = _schema(tool)
        found[tool.name] = schema if found.get(tool.name, schema) == schema else {"type": "object"}
    return found


def _schema(tool: BaseTool) -> dict[str, Any]:
    declared: Any = tool.tool_call_schema
    return cast("dict[str, Any]", declared if isinstance(declared, dict) else declared.model_json_schema())
