"""Running a checked template on values: Go's meaning, with limits.

The evaluator reaches only the values that it is given: strings, numbers, lists, maps and records, never an
attribute of a Python object. Steps and output are bounded, so nested ranges over a large window end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gitwriter.messages.checking import arity
from gitwriter.messages.errors import execute_error
from gitwriter.messages.printing import FormatProblem, Record, Value, show, sprint, sprintf, sprintln
from gitwriter.messages.syntax import Call, Control, Literal, Node, Operand, Output, Path, Pipeline, Text

MAX_STEPS = 500_000
MAX_OUTPUT = 64 * 1024


def evaluate(nodes: tuple[Node, ...], root: Record) -> str:
    """The text of a template for ``root``. Raises TemplateError (phase execute)."""
    run = _Run(root)
    run.nodes(nodes, root)
    return "".join(run.out)


def truth(value: Value) -> bool:
    """Go's idea of true: not zero, not empty, not nil."""
    return True if isinstance(value, Record) else bool(value)


class _Run:
    def __init__(self, root: Record) -> None:
        self.out: list[str] = []
        self._size = 0
        self._steps = 0
        self._scopes: list[dict[str, Value]] = [{"$": root}]

    def _step(self, line: int) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise execute_error("the template does too much work for one message", line)

    def _write(self, text: str, line: int) -> None:
        self._size += len(text.encode("utf-8", "replace"))
        if self._size > MAX_OUTPUT:
            raise execute_error(f"the message is longer than {MAX_OUTPUT} bytes", line)
        self.out.append(text)

    def nodes(self, nodes: tuple[Node, ...], dot: Value) -> None:
        self._scopes.append({})
        line = 0
        for node in nodes:
            self._step(line)
            if isinstance(node, Text):
                self._write(node.text, line)
            elif isinstance(node, Control):
                self._control(node, dot)
            elif isinstance(node, Output):
                line = node.pipeline.line
                value = self._pipeline(node.pipeline, dot)
                if node.pipeline.variables:
                    self._set(node.pipeline, (value,))
                else:
                    self._write(show(value), line)
        self._scopes.pop()

    def _control(self, node: Control, dot: Value) -> None:
        value = self._pipeline(node.pipeline, dot)
        self._scopes.append({})
        if node.keyword == "range":
            self._range(node, value, dot)
        else:
            self._set(node.pipeline, (value,))
            if truth(value):
                self.nodes(node.body, value if node.keyword == "with" else dot)
            else:
                self.nodes(node.otherwise, dot)
        self._scopes.pop()

    def _range(self, node: Control, value: Value, dot: Value) -> None:
        pairs: Sequence[tuple[Value, Value]]
        if isinstance(value, Mapping):
            pairs = sorted(value.items())
        elif isinstance(value, Sequence) and not isinstance(value, str):
            pairs = list(enumerate(value))
        elif value is None:
            pairs = []
        else:
            raise execute_error(f"range cannot iterate over {show(value)[:40]!r}", node.pipeline.line)
        for key, item in pairs:
            self._step(node.pipeline.line)
            self._set(node.pipeline, (item,) if len(node.pipeline.variables) == 1 else (key, item))
            self.nodes(node.body, item)
        if not pairs:
            self.nodes(node.otherwise, dot)

    def _set(self, pipeline: Pipeline, values: tuple[Value, ...]) -> None:
        for name, value in zip(pipeline.variables, values, strict=False):
            if pipeline.declare:
                self._scopes[-1][name] = value
                continue
            scope = next(scope for scope in reversed(self._scopes) if name in scope)
            scope[name] = value

    def _pipeline(self, pipeline: Pipeline, dot: Value) -> Value:
        value = self._operand(pipeline.commands[0], dot, ())
        for command in pipeline.commands[1:]:
            value = self._operand(command, dot, (value,))
        return value

    def _operand(self, operand: Operand, dot: Value, piped: tuple[Value, ...] = ()) -> Value:
        self._step(operand.line)
        if isinstance(operand, Literal):
            return operand.value
        if isinstance(operand, Path):
            return self._path(operand, dot)
        arity(operand, len(operand.arguments) + len(piped))
        if operand.name in ("and", "or"):
            return self._lazy(operand, dot, piped)
        values = [self._operand(argument, dot) for argument in operand.arguments] + list(piped)
        try:
            return _FUNCTIONS[operand.name](values)
        except (_Misuse, FormatProblem) as problem:
            raise execute_error(f"{operand.name}: {problem}", operand.line) from None

    def _lazy(self, call: Call, dot: Value, piped: tuple[Value, ...]) -> Value:
        value: Value = None
        for argument in call.arguments:
            value = self._operand(argument, dot)
            if truth(value) is (call.name == "or"):
                return value
        return piped[0] if piped else value

    def _path(self, path: Path, dot: Value) -> Value:
        if isinstance(path.start, Pipeline):
            value = self._pipeline(path.start, dot)
        elif path.start == ".":
            value = dot
        else:
            value = next(scope[path.start] for scope in reversed(self._scopes) if path.start in scope)
        for name in path.fields:
            if isinstance(value, Record) and name in value.fields:
                value = value.fields[name]
            elif isinstance(value, Mapping):
                value = value.get(name, 0)
            else:
                raise execute_error(f"there is no field {name}", path.line)
        return value


class _Misuse(ValueError):
    """A function was called with a value that it does not support."""


def _equal(first: Value, second: Value) -> bool:
    if first is None or second is None:
        return first is second
    if type(first) is not type(second):
        raise _Misuse("incompatible types for comparison")
    if isinstance(first, Mapping | list | tuple):
        raise _Misuse("lists and maps cannot be compared")
    return first == second


def _less(first: Value, second: Value) -> bool:
    if type(first) is int and type(second) is int:
        return first < second
    if isinstance(first, str) and isinstance(second, str):
        return first.encode("utf-8", "replace") < second.encode("utf-8", "replace")
    raise _Misuse("incompatible types for comparison")


def _length(value: Value) -> int:
    if isinstance(value, str):
        return len(value.encode("utf-8", "replace"))
    if isinstance(value, Mapping | Sequence):
        return len(value)
    raise _Misuse("the value has no length")


def _index(values: Sequence[Value]) -> Value:
    value, *keys = values
    for key in keys:
        if isinstance(value, Mapping):
            if not isinstance(key, str):
                raise _Misuse("a map is indexed by a string")
            value = value.get(key, 0)
        elif isinstance(value, str | Sequence):
            items = value.encode("utf-8", "replace") if isinstance(value, str) else value
            if type(key) is not int or not 0 <= key < len(items):
                raise _Misuse(f"index out of range: {show(key)}")
            value = items[key]
        else:
            raise _Misuse("the value cannot be indexed")
    return value


def _printf(values: Sequence[Value]) -> str:
    if not isinstance(values[0], str):
        raise _Misuse("the format must be a string")
    return sprintf(values[0], values[1:])


_FUNCTIONS: dict[str, Callable[[Sequence[Value]], Value]] = {
    "eq": lambda values: any(_equal(values[0], other) for other in values[1:]),
    "ne": lambda values: not _equal(values[0], values[1]),
    "lt": lambda values: _less(values[0], values[1]),
    "le": lambda values: not _less(values[1], values[0]),
    "gt": lambda values: _less(values[1], values[0]),
    "ge": lambda values: not _less(values[0], values[1]),
    "not": lambda values: not truth(values[0]),
    "len": lambda values: _length(values[0]),
    "index": _index,
    "print": sprint,
    "println": sprintln,
    "printf": _printf,
}
