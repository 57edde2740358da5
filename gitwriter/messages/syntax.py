"""Tokens to a tree, for the supported subset of Go's text/template.

Whatever is outside the subset is refused here, by name: a template is stored configuration, and one that
cannot work should be refused when it is written, not when it is first used.
"""

from __future__ import annotations

from dataclasses import dataclass

from gitwriter.messages.errors import parse_error
from gitwriter.messages.lexer import Kind, Token, tokenize

FUNCTIONS = frozenset(
    ["eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "len", "index", "print", "println", "printf"]
)
_FOREIGN = frozenset(
    ["define", "template", "block", "break", "continue", "call", "html", "js", "urlquery", "slice"]
)
MAX_SOURCE = 16 * 1024
MAX_DEPTH = 40


@dataclass(frozen=True, slots=True)
class Literal:
    """A string, number, boolean, or nil (None)."""

    value: str | int | bool | None
    line: int


@dataclass(frozen=True, slots=True)
class Path:
    """A start (``.``, ``$``, ``$v`` or a parenthesised pipeline) and the fields below it."""

    start: str | Pipeline
    fields: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Call:
    """A function with its arguments."""

    name: str
    arguments: tuple[Operand, ...]
    line: int


Operand = Literal | Path | Call


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Commands, each of which gets the value of the one before as its last argument; and the variables
    that take the result (``declare`` tells ``:=`` from ``=``)."""

    commands: tuple[Operand, ...]
    variables: tuple[str, ...]
    declare: bool
    line: int


@dataclass(frozen=True, slots=True)
class Text:
    """Verbatim text."""

    text: str


@dataclass(frozen=True, slots=True)
class Output:
    """A pipeline whose value is printed, unless it sets a variable."""

    pipeline: Pipeline


@dataclass(frozen=True, slots=True)
class Control:
    """``if``, ``with`` or ``range`` with its two bodies."""

    keyword: str
    pipeline: Pipeline
    body: tuple[Node, ...]
    otherwise: tuple[Node, ...]


Node = Text | Output | Control


def parse(source: str) -> tuple[Node, ...]:
    """The tree of a template. Raises TemplateError (phase parse)."""
    if len(source) > MAX_SOURCE:
        raise parse_error(f"the template is longer than {MAX_SOURCE} characters", 1)
    if "\0" in source:
        raise parse_error("the template holds a NUL character", 1)
    parser = _Parser(tokenize(source))
    nodes, ending = parser.nodes(depth=0)
    if ending is not None:
        raise parse_error(f"unexpected {{{{{ending.text}}}}}", ending.line)
    return nodes


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._scopes: list[set[str]] = [{"$"}]

    def _next(self) -> Token:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _peek(self, ahead: int = 0) -> Token:
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)]

    def nodes(self, *, depth: int) -> tuple[tuple[Node, ...], Token | None]:
        """Nodes up to ``else`` or ``end`` (returned) or the end of the template (None)."""
        found: list[Node] = []
        while True:
            token = self._next()
            if token.kind is Kind.END:
                return tuple(found), None
            if token.kind is Kind.TEXT:
                found.append(Text(token.text))
                continue
            word = self._peek()
            if word.kind is Kind.IDENTIFIER and word.text in ("end", "else"):
                self._next()
                return tuple(found), word
            if word.kind is Kind.IDENTIFIER and word.text in ("if", "with", "range"):
                self._next()
                found.append(self._control(word, depth + 1))
                continue
            found.append(Output(self._pipeline(closing="}}", depth=depth)))
            self._close()

    def _control(self, word: Token, depth: int) -> Control:
        if depth > MAX_DEPTH:
            raise parse_error(f"blocks are nested deeper than {MAX_DEPTH}", word.line)
        self._scopes.append(set())
        pipeline = self._pipeline(closing="}}", depth=depth, wanted=word.text)
        self._close()
        body, ending = self._scoped(depth)
        otherwise: tuple[Node, ...] = ()
        if ending is not None and ending.text == "else":
            chained = self._peek()
            if chained.kind is Kind.IDENTIFIER and chained.text == "if" and word.text == "if":
                self._next()
                otherwise = (self._control(chained, depth + 1),)
                self._scopes.pop()
                return Control(word.text, pipeline, body, otherwise)
            self._close()
            otherwise, ending = self._scoped(depth)
            if ending is not None and ending.text == "else":
                raise parse_error("a second {{else}} in one block", ending.line)
        if ending is None:
            raise parse_error(f"unclosed {{{{{word.text}}}}}: {{{{end}}}} is missing", word.line)
        self._close()
        self._scopes.pop()
        return Control(word.text, pipeline, body, otherwise)

    def _scoped(self, depth: int) -> tuple[tuple[Node, ...], Token | None]:
        self._scopes.append(set())
        result = self.nodes(depth=depth)
        self._scopes.pop()
        return result

    def _close(self) -> None:
        token = self._next()
        if token.kind is not Kind.CLOSE:
            raise parse_error(f"unexpected {token.text!r}", token.line)

    def _pipeline(self, *, closing: str, depth: int, wanted: str = "") -> Pipeline:
        if depth > MAX_DEPTH:
            raise parse_error(f"expressions are nested deeper than {MAX_DEPTH}", self._peek().line)
        line = self._peek().line
        variables, declare = self._variables(wanted == "range")
        commands: list[Operand] = []
        while True:
            commands.append(self._command(first=not commands, depth=depth, wanted=wanted))
            token = self._peek()
            if token.kind is Kind.SYMBOL and token.text == "|":
                self._next()
                continue
            if token.text == closing and token.kind in (Kind.CLOSE, Kind.SYMBOL):
                break
            raise parse_error(f"unexpected {token.text!r}", token.line)
        if declare:
            self._scopes[-1].update(variables)
        else:
            for name in variables:
                self._known(name, line)
        return Pipeline(tuple(commands), variables, declare, line)

    def _variables(self, in_range: bool) -> tuple[tuple[str, ...], bool]:
        """The variables that a pipeline sets, if any, and whether it declares them."""
        names: list[str] = []
        ahead = 0
        while self._peek(ahead).kind is Kind.VARIABLE:
            names.append(self._peek(ahead).text)
            sign = self._peek(ahead + 1)
            if sign.kind is not Kind.SYMBOL:
                return (), False
            if sign.text == "," and in_range and len(names) == 1:
                ahead += 2
                continue
            if sign.text not in (":=", "="):
                return (), False
            if "$" in names:
                raise parse_error("'$' cannot be set", sign.line)
            self._at += ahead + 2
            return tuple(names), sign.text == ":="
        return (), False

    def _known(self, name: str, line: int) -> None:
        if not any(name in scope for scope in self._scopes):
            raise parse_error(f"undefined variable {name!r}", line)

    def _command(self, *, first: bool, depth: int, wanted: str) -> Operand:
        head = self._peek()
        if head.kind is Kind.CLOSE or (head.kind is Kind.SYMBOL and head.text != "("):
            raise parse_error(f"missing value for {wanted or 'command'}", head.line)
        if head.kind is Kind.IDENTIFIER and head.text not in ("true", "false", "nil"):
            self._next()
            return self._call(head, depth)
        operand = self._operand(depth)
        if isinstance(operand, Literal) and operand.value is None:
            raise parse_error("nil is not a command", head.line)
        if not first:
            raise parse_error("only a function can follow '|'", head.line)
        if self._starts_operand(self._peek()):
            raise parse_error(f"{head.text!r} is no function and takes no arguments", head.line)
        return operand

    def _call(self, name: Token, depth: int) -> Call:
        if name.text in _FOREIGN:
            raise parse_error(f"{name.text!r} is not supported", name.line)
        if name.text not in FUNCTIONS:
            raise parse_error(f"function {name.text!r} is not defined", name.line)
        arguments = []
        while self._starts_operand(self._peek()):
            arguments.append(self._operand(depth))
        return Call(name.text, tuple(arguments), name.line)

    @staticmethod
    def _starts_operand(token: Token) -> bool:
        if token.kind is Kind.SYMBOL:
            return token.text == "("
        return token.kind not in (Kind.CLOSE, Kind.END, Kind.TEXT, Kind.OPEN)

    def _operand(self, depth: int) -> Operand:
        token = self._next()
        if token.kind is Kind.STRING:
            return Literal(token.text, token.line)
        if token.kind is Kind.NUMBER:
            return Literal(_integer(token), token.line)
        if token.kind is Kind.IDENTIFIER:
            return self._word(token, depth)
        if token.kind is Kind.FIELD:
            return Path(".", (token.text, *self._fields()), token.line)
        if token.kind is Kind.DOT:
            return Path(".", (), token.line)
        if token.kind is Kind.VARIABLE:
            self._known(token.text, token.line)
            return Path(token.text, self._fields(), token.line)
        if token.text == "(":
            inner = self._pipeline(closing=")", depth=depth + 1)
            if inner.variables:
                raise parse_error("a variable cannot be set inside parentheses", token.line)
            self._next()
            return Path(inner, self._fields(), token.line)
        raise parse_error(f"unexpected {token.text!r}", token.line)

    def _word(self, token: Token, depth: int) -> Operand:
        if token.text in ("true", "false"):
            return Literal(token.text == "true", token.line)
        if token.text == "nil":
            return Literal(None, token.line)
        if token.text in FUNCTIONS:
            return Call(token.text, (), token.line)
        return self._call(token, depth)

    def _fields(self) -> tuple[str, ...]:
        names = []
        while self._peek().kind is Kind.FIELD and self._peek().glued:
            names.append(self._next().text)
        return tuple(names)


def _integer(token: Token) -> int:
    digits = token.text
    if digits.lstrip("+-").startswith("0") and digits.lstrip("+-0").isdigit():
        digits = digits[: len(digits) - len(digits.lstrip("+-"))] + "0o" + digits.lstrip("+-")
    value = int(digits, 0)
    if not -(1 << 63) <= value < 1 << 63:
        raise parse_error("the number is too large", token.line)
    return value
