"""A template against the types of its variables, in every branch.

Rendering a sample catches only what the sample reaches; a misspelt field behind ``{{if .Group}}`` would wait
for the first object with a group. So the tree is type-checked without running it: each field must exist and
each call must fit, in every branch. A value is ``Unknown`` where two branches disagree; the evaluator then
checks it at run time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from gitwriter.messages.errors import execute_error
from gitwriter.messages.printing import FormatProblem, check_format
from gitwriter.messages.syntax import Call, Control, Literal, Node, Operand, Output, Path, Pipeline


class Basic(Enum):
    """Types without parts."""

    STRING = "string"
    INT = "int"
    BOOL = "bool"
    NIL = "nil"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class RecordOf:
    """Named fields."""

    name: str
    fields: Mapping[str, Type] = field(hash=False)


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list."""

    item: Type


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map from strings; an absent key reads as zero."""

    item: Type


Type = Basic | RecordOf | ListOf | MapOf

_ARITY = {
    "eq": (2, None),
    "and": (1, None),
    "or": (1, None),
    "not": (1, 1),
    "len": (1, 1),
    "index": (1, None),
}
_ARITY |= {"ne": (2, 2), "lt": (2, 2), "le": (2, 2), "gt": (2, 2), "ge": (2, 2)}
_ARITY |= {"print": (0, None), "println": (0, None), "printf": (1, None)}


def check(nodes: tuple[Node, ...], root: Type) -> None:
    """Raises TemplateError (phase execute) for the first field or call that cannot work."""
    _Checker(root).nodes(nodes, root)


def arity(call: Call, count: int) -> None:
    """Raises TemplateError when a function gets too few or too many arguments."""
    low, high = _ARITY[call.name]
    if count < low or (high is not None and count > high):
        raise execute_error(f"wrong number of arguments for {call.name}: {count}", call.line)


def _name(kind: Type) -> str:
    if isinstance(kind, Basic):
        return kind.value
    if isinstance(kind, RecordOf):
        return kind.name
    return "list" if isinstance(kind, ListOf) else "map"


class _Checker:
    def __init__(self, root: Type) -> None:
        self._scopes: list[dict[str, Type]] = [{"$": root}]

    def nodes(self, nodes: tuple[Node, ...], dot: Type) -> None:
        self._scopes.append({})
        for node in nodes:
            if isinstance(node, Output):
                self._set(node.pipeline, (self._pipeline(node.pipeline, dot),))
            elif isinstance(node, Control):
                self._control(node, dot)
        self._scopes.pop()

    def _control(self, node: Control, dot: Type) -> None:
        kind = self._pipeline(node.pipeline, dot)
        self._scopes.append({})
        inner = dot
        if node.keyword == "range":
            if isinstance(kind, ListOf | MapOf):
                key: Type = Basic.INT if isinstance(kind, ListOf) else Basic.STRING
                inner = kind.item
            elif kind in (Basic.UNKNOWN, Basic.NIL):
                key = inner = Basic.UNKNOWN
            else:
                raise execute_error(f"range cannot iterate over a {_name(kind)}", node.pipeline.line)
            names = node.pipeline.variables
            self._set(node.pipeline, (inner,) if len(names) == 1 else (key, inner))
        else:
            self._set(node.pipeline, (kind,))
            if node.keyword == "with":
                inner = kind
        self.nodes(node.body, inner)
        self.nodes(node.otherwise, dot)
        self._scopes.pop()

    def _set(self, pipeline: Pipeline, kinds: tuple[Type, ...]) -> None:
        for name, kind in zip(pipeline.variables, kinds, strict=False):
            if pipeline.declare:
                self._scopes[-1][name] = kind
                continue
            for scope in reversed(self._scopes):
                if name in scope:
                    scope[name] = kind if scope[name] == kind else Basic.UNKNOWN
                    break

    def _pipeline(self, pipeline: Pipeline, dot: Type) -> Type:
        value: Type | None = None
        for command in pipeline.commands:
            value = self._operand(command, dot, value)
        assert value is not None
        return value

    def _operand(self, operand: Operand, dot: Type, piped: Type | None = None) -> Type:
        if isinstance(operand, Literal):
            kinds: dict[type, Type] = {str: Basic.STRING, bool: Basic.BOOL, int: Basic.INT}
            return kinds.get(type(operand.value), Basic.NIL)
        if isinstance(operand, Path):
            return self._path(operand, dot)
        kinds_given = [self._operand(argument, dot) for argument in operand.arguments]
        if piped is not None:
            kinds_given.append(piped)
        arity(operand, len(kinds_given))
        return _result(operand, kinds_given)

    def _path(self, path: Path, dot: Type) -> Type:
        if isinstance(path.start, Pipeline):
            kind = self._pipeline(path.start, dot)
        elif path.start == ".":
            kind = dot
        else:
            kind = next(scope[path.start] for scope in reversed(self._scopes) if path.start in scope)
        for name in path.fields:
            if isinstance(kind, RecordOf) and name in kind.fields:
                kind = kind.fields[name]
            elif isinstance(kind, MapOf):
                kind = kind.item
            elif kind is not Basic.UNKNOWN:
                known = f" (known: {', '.join(kind.fields)})" if isinstance(kind, RecordOf) else ""
                raise execute_error(f"there is no field {name} in {_name(kind)}{known}", path.line)
        return kind


def _result(call: Call, kinds: list[Type]) -> Type:
    if call.name in ("and", "or"):
        return kinds[0] if all(kind == kinds[0] for kind in kinds) else Basic.UNKNOWN
    if call.name in ("eq", "ne", "lt", "le", "gt", "ge"):
        _comparable(call, kinds)
        return Basic.BOOL
    if call.name == "len":
        if kinds[0] in (Basic.INT, Basic.BOOL, Basic.NIL) or isinstance(kinds[0], RecordOf):
            raise execute_error(f"a {_name(kinds[0])} has no length", call.line)
        return Basic.INT
    if call.name == "index":
        return _indexed(call, kinds)
    if call.name == "printf":
        return _format(call, kinds)
    return Basic.BOOL if call.name == "not" else Basic.STRING


def _comparable(call: Call, kinds: list[Type]) -> None:
    for kind in kinds:
        if isinstance(kind, ListOf | MapOf) or (isinstance(kind, RecordOf) and call.name not in ("eq", "ne")):
            raise execute_error(f"{call.name} cannot compare a {_name(kind)}", call.line)
        if kind in (Basic.BOOL, Basic.NIL) and call.name not in ("eq", "ne"):
            raise execute_error(f"{call.name} cannot compare a {_name(kind)}", call.line)
        if kind != kinds[0] and not {kind, kinds[0]} & {Basic.UNKNOWN, Basic.NIL}:
            raise execute_error(
                f"{call.name} cannot compare a {_name(kinds[0])} with a {_name(kind)}", call.line
            )


def _indexed(call: Call, kinds: list[Type]) -> Type:
    kind, *keys = kinds
    for key in keys:
        if kind is Basic.UNKNOWN:
            return kind
        wanted = Basic.STRING if isinstance(kind, MapOf) else Basic.INT
        if not isinstance(kind, ListOf | MapOf) and kind is not Basic.STRING:
            raise execute_error(f"a {_name(kind)} cannot be indexed", call.line)
        if key not in (wanted, Basic.UNKNOWN):
            raise execute_error(f"a {_name(kind)} cannot be indexed by a {_name(key)}", call.line)
        kind = Basic.INT if kind is Basic.STRING else kind.item
    return kind


def _format(call: Call, kinds: list[Type]) -> Type:
    if kinds[0] not in (Basic.STRING, Basic.UNKNOWN):
        raise execute_error("the first argument of printf must be a string", call.line)
    first = call.arguments[0] if call.arguments else None
    if isinstance(first, Literal) and isinstance(first.value, str):
        try:
            check_format(first.value)
        except FormatProblem as problem:
            raise execute_error(str(problem), call.line) from None
    return Basic.STRING
