"""Reads the source of functions to find calls without an await.

A file is read once. Only small records of its functions are kept.
"""

from __future__ import annotations

import ast
import contextlib
import linecache
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from types import CodeType
from typing import Any, Final, NamedTuple

MADE: Final = "()"
"""The part of a chain that stands for a call of the preceding part, which may be a class."""

Chain = tuple[str, ...]
"""A name with its attributes: ``("approvals", "ask")`` for ``approvals.ask``. ``MADE`` stands for a call."""

Span = tuple[int, int, int, int]
"""The first and last line, then the first and last column, as in ``CodeType.co_positions``."""

DROPPED: Final = "was never awaited"
ASKED: Final = "was tested for truth without an await: it is always true"
COMPARED: Final = "was compared without an await"
FORMATTED: Final = "was converted to text without an await"
NEVER_READ: Final = "was never awaited: its variable is never read"

_MOST_FILES: Final = 512
_MOST_CODES: Final = 16_384
_LONGEST: Final = 100
"""The longest call shown, in characters."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_ITEMS: Final = (ast.List, ast.Tuple, ast.Set)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.GeneratorExp)

_LOOKING: Final = frozenset({"locals", "vars", "eval", "exec"})
"""Builtins that may read any variable."""

_CONSUMERS: Final = {
    "bool": ASKED,
    "str": FORMATTED,
    "repr": FORMATTED,
    "format": FORMATTED,
    "print": FORMATTED,
}
"""Builtins that use their argument as a value."""


class Result(NamedTuple):
    """An expression that is a call, or an await of a call.

    Attributes:
        chain: The called name.
        awaits: How often the result is awaited.
    """

    chain: Chain
    awaits: int


class Use(NamedTuple):
    """A place that uses a result as a value, or drops it.

    Attributes:
        result: The result.
        how: What happens to it.
        span: Its position.
        builtin: The builtin that uses it, unless that name is rebound; None: a part of the language.
    """

    result: Result
    how: str
    span: Span
    builtin: str | None


class Source(NamedTuple):
    """The findings in the source of one function.

    Attributes:
        parameters: The names of its positional parameters.
        bound: Its own names, not those of enclosing code.
        rebound: Those of them that it or a nested function assigns.
        functions: Those of them that surely are one undecorated nested function, with its first line.
        made: Those that surely are bound once, to a call's result.
        uses: The results that it uses without an await.
        returns: The result that it returns, if every return has one and it ends with a return.
    """

    parameters: Sequence[str]
    bound: frozenset[str]
    rebound: frozenset[str]
    functions: dict[str, int]
    made: dict[str, Chain]
    uses: Sequence[Use]
    returns: Sequence[Result]


_PARSES: Final = 10

_WITHOUT_AWAIT: Final = (
    r"(?<!await )(?<!yield )(?<!from )(?<!def )(?<![\w.])(?:\w+\.)*(?:{0})\s*\("
    r"|\)\.(?:{0})\s*\("
    r"|(?:filter|map)\(\s*(?:\w+\.)*(?:{0})\b"
)

_Functions = dict[tuple[str, int], list[Source]]

_files: dict[str, tuple[int, _Functions]] = {}  # with a hash of the file's text, which may change

# By identity, since equal code in different files differs. Keeping the code object keeps its id valid.
_known: dict[int, tuple[CodeType, Sequence[Source]]] = {}


def sources_of(code: CodeType, module: dict[str, Any]) -> Sequence[Source]:
    """Return the findings for a function's code: several for lambdas on one line, none without source.

    Args:
        code: The code object.
        module: The module's globals, whose loader may have the source.
    """
    known = _known.get(id(code))
    if known is None:
        if len(_known) >= _MOST_CODES:
            _known.clear()
        found = _functions_in(code.co_filename, module).get((code.co_name, code.co_firstlineno), ())
        _known[id(code)] = known = (code, found)
    return known[1]


def _functions_in(file: str, module: dict[str, Any]) -> _Functions:
    linecache.checkcache(file)
    text = "".join(_lines_of(file, module))
    known = _files.get(file)
    if known is None or known[0] != hash(text):
        if len(_files) >= _MOST_FILES:
            _files.clear()
        _files[file] = known = (hash(text), _read(file, text))
    return known[1]


def _lines_of(file: str, module: dict[str, Any]) -> Sequence[str]:
    try:
        return linecache.getlines(file, module)
    except Exception:  # raised by the module's loader
        return ()


def _read(file: str, text: str) -> _Functions:
    found: _Functions = {}
    try:
        nodes = list(ast.walk(_parsed(file, text)))
    except (SyntaxError, ValueError, RecursionError):  # not Python, such as a compiled template
        return {}
    shared = [(node.lineno, name) for node in nodes if isinstance(node, ast.Nonlocal) for name in node.names]
    for node in nodes:
        if isinstance(node, _FUNCTIONS):
            name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
            with contextlib.suppress(RecursionError):  # an expression with a thousand operands
                found.setdefault((name, first_line(node)), []).append(_Reader(node, shared).source())
    return found


def _parsed(file: str, text: str) -> ast.Module:
    """Parse source, and retry if CPython fails because another thread parses too, for example to log a traceback.

    Until 3.12.1 all threads share one counter (python/cpython#106905).
    """
    for _ in range(_PARSES):
        with contextlib.suppress(SystemError):
            return ast.parse(text, file)
    raise ValueError(f"{file} cannot be parsed beside what else is parsed")


def calls_one_of(code: CodeType, module: dict[str, Any], names: Iterable[str]) -> bool:
    """Return whether the source may call one of these names without an await. Fast: it parses nothing."""
    lines = _lines_of(code.co_filename, module)
    last = max((line for each in with_inner(code) for *_, line in each.co_lines() if line), default=0)
    text = "".join(lines[code.co_firstlineno - 1 : last + 1])
    return re.search(_WITHOUT_AWAIT.format("|".join(map(re.escape, names))), text) is not None


def text_of(code: CodeType, use: Use) -> str:
    """Return the source of a use, shortened."""
    first, last, begin, end = use.span
    lines = [each.encode() for each in linecache.getlines(code.co_filename)[first - 1 : last]]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][begin:]
    text = " ".join(b"".join(lines).decode(errors="replace").split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def first_line(node: _Function) -> int:
    """Return the first line of a function's code: that of its first decorator."""
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return min([node.lineno, *(each.lineno for each in decorators)])


class _Reader:
    """Reads one function, without nested functions.

    Args:
        node: The function.
        shared: Names that functions assign in enclosing functions, with the lines that declare it.
    """

    def __init__(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, shared: Sequence[tuple[int, str]]
    ) -> None:
        self._node = node
        self._bound: set[str] = set()
        self._defined: dict[str, list[int]] = {}
        last = node.end_lineno or 0
        self._shared = {name for line, name in shared if node.lineno <= line <= last}
        self._uses: list[Use] = []
        self._returns: list[ast.expr | None] = []
        self._assigned: list[tuple[str, ast.expr]] = []
        self._reads: Counter[str] = Counter()
        self._bindings: Counter[str] = Counter()
        self._values: dict[
            str, dict[int, tuple[str, str | None]]
        ] = {}  # how names are used as values, by node
        self._outer = set(self._shared)  # visible to other functions, too

    def source(self) -> Source:
        node = self._node
        arguments = node.args
        by_position = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
        others = (*arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
        given = {*by_position, *(each.arg for each in others if each is not None)}
        given.update(each.name for each in getattr(node, "type_params", ()))
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        for each in body:
            self._visit(each)
        functions = {
            name: lines[0]
            for name, lines in self._defined.items()
            if len(lines) == 1 and name not in self._bound | self._shared | given
        }
        made = {
            name: chain
            for name, value in self._assigned
            if isinstance(value, ast.Call) and (chain := _chain_of(value)) and self._is_single(name, given)
        }
        self._use_assigned()
        rebound = frozenset({*self._bound, *self._defined})
        return Source(
            by_position,
            rebound | given,
            rebound,
            functions,
            made,
            self._uses,
            self._results(),
        )

    def _is_single(self, name: str, given: set[str]) -> bool:
        is_once = self._bindings[name] == 1 and "setattr" not in self._reads
        return is_once and name not in self._shared | given | self._defined.keys()

    def _use_assigned(self) -> None:
        """Note each result in a variable of which only its truth, or the like, is read."""
        if not self._reads.keys().isdisjoint(_LOOKING):
            return
        for name, value in self._assigned:
            uses = self._values.get(name, {})
            if name in self._outer or self._reads[name] > len(uses):
                continue
            how, builtin = next(iter(uses.values()), (NEVER_READ, None))
            if all(other in (None, builtin) for _, other in uses.values()):
                self._use(value, how, builtin, is_deep=True)

    def _results(self) -> Sequence[Result]:
        node = self._node
        if isinstance(node, ast.Lambda):
            returns: list[ast.expr | None] = [node.body]
        elif isinstance(node.body[-1], ast.Return):
            returns = self._returns
        else:
            return ()
        found = [None if each is None else _result_of(each) for each in returns]
        return [each for each in found if each is not None] if None not in found else ()

    def _visit(self, node: ast.AST) -> None:
        for used, how, builtin in _used_in(node):
            self._use(used, how, builtin)
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if node.decorator_list:
                    self._bound.add(node.name)
                self._defined.setdefault(node.name, []).append(first_line(node))
                for each in (*node.decorator_list, node.args):
                    self._visit_all(each)
                self._see_from_within(node)
                return
            case ast.Lambda():
                self._visit_all(node.args)
                self._see_from_within(node)
                return
            case ast.ClassDef(name=name):
                self._see_from_within(node)
                self._bound.add(name)
                for each in ast.walk(node):  # its body has its own names, which its methods do not see
                    self._bind(each)
                return
            case ast.Return(value=value):
                self._returns.append(value)
            case ast.Name(id=name, ctx=ast.Load()):
                self._reads[name] += 1
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                self._assigned.append((name, value))
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(
                names
            ) == len(values):
                pairs = zip(names, values, strict=True)
                self._assigned.extend((each.id, value) for each, value in pairs if isinstance(each, ast.Name))
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                self._outer.update(names)
            case _:
                pass
        self._bind(node)
        for each in ast.iter_child_nodes(node):
            self._visit(each)

    def _see_from_within(self, node: ast.AST) -> None:
        self._outer.update(each.id for each in ast.walk(node) if isinstance(each, ast.Name))

    def _visit_all(self, node: ast.AST) -> None:
        for each in ast.iter_child_nodes(node) if isinstance(node, ast.arguments) else [node]:
            if not isinstance(each, ast.arg):
                self._visit(each)

    def _bind(self, node: ast.AST) -> None:
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                self._bound.add(name)
                self._bindings[name] += 1
            case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                self._bindings[name] += 1  # another object than its class creates
            case ast.Attribute(attr="setattr"):
                self._reads["setattr"] += 1
            case ast.alias():
                self._bound.add((node.asname or node.name).partition(".")[0])
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ):
                self._bound.add(name)
            case ast.MatchMapping(rest=str(name)):
                self._bound.add(name)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                self._bound.update(names)
                self._bindings.update(names)
            case _:
                pass

    def _use(self, node: ast.expr, how: str, builtin: str | None, *, is_deep: bool = False) -> None:
        """Note each result that may be an expression's value, or an item of it if nothing reads the item."""
        is_deep = is_deep or how == DROPPED
        match node:
            case ast.NamedExpr(target=ast.Name(id=name), value=value):
                self._assigned.append((name, value))
            case ast.Name(id=name):
                self._values.setdefault(name, {})[id(node)] = how, builtin
            case ast.IfExp(body=body, orelse=orelse):
                self._use(body, how, builtin, is_deep=is_deep)
                self._use(orelse, how, builtin, is_deep=is_deep)
            case ast.BoolOp(values=[*_, last]):
                self._use(last, how, builtin, is_deep=is_deep)
            case ast.List() | ast.Tuple() | ast.Set() if is_deep:
                for each in node.elts:
                    self._use(each, how, builtin, is_deep=True)
            case ast.ListComp(elt=item) | ast.SetComp(elt=item) if is_deep:
                self._use(item, how, builtin, is_deep=True)
            case _:
                result = _result_of(node)
                if result is not None:
                    self._uses.append(Use(result, how, _span(node), builtin))


def _used_in(node: ast.AST) -> Iterator[tuple[ast.expr, str, str | None]]:
    """Yield the expressions that a node uses as values, or drops."""
    match node:
        case ast.Expr(value=value):
            yield value, DROPPED, None
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
            yield test, ASKED, None
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand, ASKED, None
        case ast.BoolOp(values=[*tested, _]):
            yield from ((each, ASKED, None) for each in tested)
        case ast.comprehension(ifs=tests):
            yield from ((each, ASKED, None) for each in tests)
        case ast.match_case(guard=ast.expr() as guard):
            yield guard, ASKED, None
        case ast.Match(subject=subject) if not any(map(_captures, node.cases)):
            yield subject, COMPARED, None
        case ast.Compare(left=left, comparators=others):
            yield from ((each, COMPARED, None) for each in (left, *others))
        case ast.FormattedValue(value=value):
            yield value, FORMATTED, None
        case ast.Call(func=ast.Name(id=name), args=args):
            yield from ((each, how, name) for each, how in _consumed(name, args))
        case _:
            pass


def _captures(case: ast.match_case) -> bool:
    return any(isinstance(each, ast.MatchAs | ast.MatchStar) and each.name for each in ast.walk(case.pattern))


def _consumed(name: str, args: Sequence[ast.expr]) -> Iterator[tuple[ast.expr, str]]:
    if (how := _CONSUMERS.get(name)) is not None:
        yield from ((each, how) for each in args)
    elif name in ("any", "all") and len(args) == 1:
        (items,) = args
        if isinstance(items, _ITEMS):
            yield from ((each, ASKED) for each in items.elts)
        elif isinstance(items, _COMPREHENSIONS):
            yield items.elt, ASKED
        elif isinstance(items, ast.Name):
            yield items, ASKED
        elif isinstance(items, ast.Call) and isinstance(items.func, ast.Name) and items.func.id == "map":
            yield _call_of(items.args[0]), ASKED
    elif name == "filter" and len(args) == 2:
        predicate = args[0]
        if isinstance(predicate, ast.Lambda):
            yield predicate.body, ASKED
        else:
            yield _call_of(predicate), ASKED


def _call_of(function: ast.expr) -> ast.expr:
    """Return the expression for the call that a builtin makes."""
    return ast.copy_location(ast.Call(function, [], []), function)


def _result_of(node: ast.expr) -> Result | None:
    awaits = 0
    while isinstance(node, ast.Await):
        node, awaits = node.value, awaits + 1
    chain = _chain_of(node.func) if isinstance(node, ast.Call) else None
    return None if chain is None else Result(chain, awaits)


def _chain_of(node: ast.expr) -> Chain | None:
    parts: list[str] = []
    while not isinstance(node, ast.Name):
        match node:
            case ast.Attribute(value=value, attr=name):
                parts.append(name)
                node = value
            case ast.Call(func=called):
                parts.append(MADE)
                node = called
            case _:
                return None
    return (node.id, *reversed(parts))


def _span(node: ast.expr) -> Span:
    return (node.lineno, node.end_lineno or 0, node.col_offset, node.end_col_offset or 0)


def is_in(code: CodeType, use: Use) -> bool:
    """Return whether a code object contains a use: its file may have changed, and unreachable code is left out."""
    return use.span in _spans(code) if len(use.result.chain) == 1 else use.span[1::2] in _ends(code)


def _spans(code: CodeType) -> set[Any]:
    return {span for each in with_inner(code) for span in each.co_positions()}


def _ends(code: CodeType) -> set[Any]:
    """Return the end positions of calls: Python starts a method call's position at the method's name."""
    return {span[1::2] for each in with_inner(code) for span in each.co_positions()}


def with_inner(code: CodeType) -> Iterable[CodeType]:
    """Yield a code object and all nested ones."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from with_inner(each)
