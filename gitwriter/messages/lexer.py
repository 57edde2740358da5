"""Templates to tokens: text, and what stands between ``{{`` and ``}}``.

The rules are Go's: ``{{-`` and ``-}}`` (with white space on the inner side) trim the text beside them,
comments vanish, strings are Go strings. Constructs outside the supported subset are refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from gitwriter.messages.errors import parse_error

_SPACE = " \t\r\n"
_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|[0-9]+)")
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{3}|.)", re.DOTALL)
_SIMPLE_ESCAPES = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    '"': '"',
}


class Kind(Enum):
    """What a token is."""

    TEXT = auto()
    OPEN = auto()
    CLOSE = auto()
    FIELD = auto()
    DOT = auto()
    VARIABLE = auto()
    IDENTIFIER = auto()
    STRING = auto()
    NUMBER = auto()
    SYMBOL = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class Token:
    """A token; ``glued`` tells that no white space stands before it (so ``.A.B`` is one path)."""

    kind: Kind
    text: str
    line: int
    glued: bool = False


def tokenize(source: str) -> list[Token]:
    """All tokens of a template, ended by END. Raises TemplateError (phase parse)."""
    tokens: list[Token] = []
    position, trim_next = 0, False
    while True:
        start = source.find("{{", position)
        text = source[position:] if start < 0 else source[position:start]
        line = source.count("\n", 0, position) + 1
        if trim_next:
            text = text.lstrip(_SPACE)
        if start >= 0 and source.startswith("{{-", start) and source[start + 3 : start + 4] in tuple(_SPACE):
            text = text.rstrip(_SPACE)
            inner = start + 3
        else:
            inner = start + 2
        if text:
            tokens.append(Token(Kind.TEXT, text, line))
        if start < 0:
            tokens.append(Token(Kind.END, "", source.count("\n") + 1))
            return tokens
        position, trim_next = _action(source, inner, tokens)


def _action(source: str, position: int, tokens: list[Token]) -> tuple[int, bool]:
    """Tokens of one action; returns where the text goes on, and whether it is trimmed there."""
    line = source.count("\n", 0, position) + 1
    comment = position
    while source[comment : comment + 1] in tuple(_SPACE):
        comment += 1
    if source.startswith("/*", comment):
        return _comment(source, comment, line)
    tokens.append(Token(Kind.OPEN, "{{", line))
    glued = False
    while True:
        if position >= len(source):
            raise parse_error("unclosed action: '}}' is missing", line)
        rest = source[position : position + 4]
        line = source.count("\n", 0, position) + 1
        if rest.startswith("}}"):
            tokens.append(Token(Kind.CLOSE, "}}", line))
            return position + 2, False
        if rest[:1] in tuple(_SPACE):
            if rest[1:] == "-}}":
                tokens.append(Token(Kind.CLOSE, "}}", line))
                return position + 4, True
            position, glued = position + 1, False
            continue
        token, position = _token(source, position, line, glued)
        tokens.append(token)
        glued = True


def _comment(source: str, position: int, line: int) -> tuple[int, bool]:
    end = source.find("*/", position)
    if end < 0:
        raise parse_error("unclosed comment", line)
    if source.startswith("}}", end + 2):
        return end + 4, False
    if source[end + 2 : end + 3] in tuple(_SPACE) and source.startswith("-}}", end + 3):
        return end + 6, True
    raise parse_error("a comment must end right before '}}'", line)


def _token(source: str, position: int, line: int, glued: bool) -> tuple[Token, int]:
    char = source[position]
    if char == ".":
        name = _IDENTIFIER.match(source, position + 1)
        if name:
            return Token(Kind.FIELD, name[0], line, glued), name.end()
        return Token(Kind.DOT, ".", line, glued), position + 1
    if char == "$":
        name = _IDENTIFIER.match(source, position + 1)
        end = name.end() if name else position + 1
        return Token(Kind.VARIABLE, source[position:end], line, glued), end
    if char == '"':
        return _string(source, position, line, glued)
    if char == "`":
        end = source.find("`", position + 1)
        if end < 0:
            raise parse_error("unterminated raw string", line)
        return Token(Kind.STRING, source[position + 1 : end].replace("\r", ""), line, glued), end + 1
    if char == "'":
        raise parse_error("character constants are not supported", line)
    number = _NUMBER.match(source, position)
    if number:
        following = source[number.end() : number.end() + 1]
        if following.isalnum() or following in ("_", "."):
            raise parse_error("only whole numbers are supported", line)
        return Token(Kind.NUMBER, number[0], line, glued), number.end()
    name = _IDENTIFIER.match(source, position)
    if name:
        return Token(Kind.IDENTIFIER, name[0], line, glued), name.end()
    for symbol in (":=", "=", "|", "(", ")", ","):
        if source.startswith(symbol, position):
            return Token(Kind.SYMBOL, symbol, line, glued), position + len(symbol)
    raise parse_error(f"unexpected {char!r} in an action", line)


def _string(source: str, position: int, line: int, glued: bool) -> tuple[Token, int]:
    end = position + 1
    while source[end : end + 1] != '"':
        if end >= len(source) or source[end] == "\n":
            raise parse_error("unterminated string", line)
        end += 2 if source[end] == "\\" else 1
    text = "".join(_unescaped(source[position + 1 : end], line))
    return Token(Kind.STRING, text, line, glued), end + 1


def _unescaped(body: str, line: int) -> Iterator[str]:
    position = 0
    for match in _ESCAPE.finditer(body):
        yield body[position : match.start()]
        code = match[1]
        if code in _SIMPLE_ESCAPES:
            yield _SIMPLE_ESCAPES[code]
        elif len(code) > 1:
            value = int(code, 8) if code[0] in "01234567" else int(code[1:], 16)
            if value > 0x10FFFF or 0xD800 <= value < 0xE000 or (code[0] not in "uU" and value > 0x7F):
                raise parse_error(f"invalid escape \\{code} in a string", line)
            yield chr(value)
        else:
            raise parse_error(f"unknown escape \\{code} in a string", line)
        position = match.end()
    yield body[position:]
