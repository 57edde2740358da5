"""Documents written in wild styles, and random changes to the objects that they hold.

`WildWriter` writes an object as text and remembers which path each line belongs to, so that a test can tell
the lines that an edit had no business touching. `mutate` changes an object and says at which paths.
"""

from __future__ import annotations

import copy
import json
import random
from dataclasses import dataclass, field
from typing import Any

from gitwriter.manifests.scalars import double_quoted, plain_is_safe, single_quoted

Path = tuple[Any, ...]

WORDS = [
    "web", "api", "nginx:1.27", "yes", "off", "1.10", "0644", "1e3", "2024-01-01", "12:30:45", "null", "~",
    "", "a b c",
    "it's", 'say "hi"', "x: y", "a #b", "- dash", "*star", "&amp", "@at", "`tick`", "%p", "{brace}",
    "[list]", "--flag=1",
    "-c", "100m", "Grüße 👋", "tab\there", "back\\slash", " lead", "trail ", "key:", "#hash",
    "http://x.example:80/p?q=1",
    "the quick brown fox jumps over the lazy dog", "a sentence of several words, with a comma: and more",
    "x  y   z w v",
    "=", "<<", "|", ">", "0o17", "0x1F", "1_000", ".5", "...", "---", "a,b", "a]b", "$(VAR)", "<none>",
    "true", "y",
]  # fmt: skip
TEXTS = [
    "one\ntwo\n", "one\ntwo", "one\n\ntwo\n\n\n", "  indented\nflush\n", "#!/bin/sh\nset -e\necho hi\n",
    "a\n---\nb\n",
    "# not a comment\nkey: value\n", "line  \nwith blanks\t\n", "\ttab first\n", "\n\nlead\n",
    "a\n  b\n c\n", "x\r\ny\r\n",
    "a fairly long line of prose that goes on\nand another line of prose\n", "...\n", "last\n \n", "\n",
]  # fmt: skip
KEYS = [
    "name", "image", "value", "on", "yes", "app.kubernetes.io/name", "tier", "port", "a b", "0123", "k2",
    "k10", "x-y",
    "data.txt", "nginx.conf", "null", "é", "it's", "a: b", "key", "type", "null", "y", "1", "spec", "items",
]  # fmt: skip


def random_scalar(rnd: random.Random) -> Any:
    roll = rnd.random()
    if roll < 0.55:
        return rnd.choice(WORDS)
    if roll < 0.7:
        return rnd.choice(TEXTS)
    if roll < 0.85:
        return rnd.choice(
            [0, 1, 80, 8080, -5, 420, 9007199254740993, 2**63 - 1, -(2**63), 0.5, 1.5, -2.25, 1e21, 1e-7]
        )
    return rnd.choice([True, False, None])


def random_value(rnd: random.Random, depth: int) -> Any:
    roll = rnd.random()
    if depth <= 0 or roll < 0.45:
        return random_scalar(rnd)
    if roll < 0.75:
        return {key: random_value(rnd, depth - 1) for key in rnd.sample(KEYS, rnd.randint(0, 4))}
    if roll < 0.88:
        names = rnd.sample(WORDS[:3] + WORDS[22:30], rnd.randint(1, 4))
        return [
            {
                "name": name,
                **{k: random_value(rnd, depth - 2) for k in rnd.sample(KEYS[1:8], rnd.randint(0, 2))},
            }
            for name in names
        ]
    return [random_value(rnd, depth - 1) for _ in range(rnd.randint(0, 4))]


def random_object(rnd: random.Random) -> dict[str, Any]:
    obj: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Wild",
        "metadata": {"name": "wild", "namespace": "zoo"},
    }
    for key in rnd.sample(["spec", "data", "rules", "extra"], rnd.randint(1, 3)):
        obj[key] = random_value(rnd, 4)
    return obj


def with_repetition(rnd: random.Random, obj: dict[str, Any]) -> dict[str, Any]:
    """The object with some of its parts copied to other places (sometimes with an extra key)."""
    for _ in range(3):
        places = [node for path, node in _containers(obj, ()) if path and path[0] != "metadata"]
        dicts = [node for node in places if isinstance(node, dict)]
        if not dicts:
            break
        piece = copy.deepcopy(rnd.choice(places))
        if isinstance(piece, dict) and rnd.random() < 0.5:
            piece["own"] = rnd.choice(WORDS)
        rnd.choice(dicts)[rnd.choice(["copy", "again", "third"])] = piece
    return obj


@dataclass
class WildWriter:
    """Writes one object; `lines` pairs each line (without newline) with the path that owns it."""

    rnd: random.Random
    comments: bool = True
    anchors: bool = False
    lines: list[tuple[str, Path]] = field(default_factory=list)
    counter: int = 0
    anchored: dict[str, tuple[str, Any]] = field(default_factory=dict)

    def comment(self, column: int, path: Path, chance: float = 0.15) -> None:
        if self.comments and self.rnd.random() < chance:
            self.counter += 1
            self.lines.append((" " * column + f"# note {self.counter}: about it", path))
        if self.rnd.random() < 0.06:
            self.lines.append((self.rnd.choice(["", "", "  "]), ("blank",)))

    def inline_comment(self) -> str:
        if self.comments and self.rnd.random() < 0.15:
            self.counter += 1
            return self.rnd.choice([" ", "   "]) + f"# c{self.counter}"
        return self.rnd.choice([""] * 9 + [" "])

    def write(self, obj: dict[str, Any]) -> None:
        if self.rnd.random() < 0.3:
            self.lines.append(("# head of the file", ("head",)))
            self.lines.append(("", ("blank",)))
        self.mapping(obj, 0, ())
        if self.rnd.random() < 0.2:
            self.lines.append(("# foot of the file", ("foot",)))

    def scalar(self, value: Any, *, flow: bool) -> str:
        rnd = self.rnd
        if value is None:
            return rnd.choice(["null", "~", "Null"])
        if isinstance(value, bool):
            return rnd.choice(["true", "True", "yes", "on"] if value else ["false", "FALSE", "no", "off"])
        if isinstance(value, int):
            if value > 0 and rnd.random() < 0.2:
                return rnd.choice([hex(value), oct(value), "0" + oct(value)[2:], f"{value:_}"])
            return str(value)
        if isinstance(value, float):
            return repr(value) if "e" not in repr(value) else f"{value:.1e}"
        choices = [double_quoted(value)]
        if (single := single_quoted(value)) is not None:
            choices.append(single)
        if plain_is_safe(value, flow=flow):
            choices += [value] * 3
        return rnd.choice(choices)

    def key(self, key: str, *, flow: bool) -> str:
        return self.scalar(key, flow=flow)

    def flow(self, value: Any) -> str:
        pad = self.rnd.choice(["", "", " "])
        if isinstance(value, dict):
            inner = ", ".join(f"{self.key(k, flow=True)}: {self.flow(v)}" for k, v in value.items())
            return "{" + pad + inner + pad + "}"
        if isinstance(value, list):
            comma = "," if value and self.rnd.random() < 0.1 else ""
            return "[" + pad + ", ".join(self.flow(v) for v in value) + comma + pad + "]"
        return self.scalar(value, flow=True)

    def block_text(self, value: str, column: int) -> tuple[str, list[str]] | None:
        """Header and lines of a literal block at column, or None where a block cannot hold the text."""
        if "\n" not in value or "\r" in value or not value.strip():
            return None
        body = value.rstrip("\n")
        trailing = len(value) - len(body)
        content = body.split("\n")
        first = next(line for line in content if line.strip(" "))
        digit = ""
        lead = len(content) and content[0] == ""
        indent = self.rnd.randint(1, 4)
        if first[0] in " \t" or content[0].startswith(" ") or lead:
            digit = str(indent)
        chomp = "-" if trailing == 0 else "+" if trailing > 1 else self.rnd.choice(["", "", "+"])
        lines = [" " * (column + indent) + line if line else "" for line in content]
        if chomp == "+":
            lines += [""] * (trailing - 1)
        header = "|" + (digit + chomp if self.rnd.random() < 0.5 else chomp + digit)
        return header, lines

    def value(self, value: Any, prefix: str, column: int, path: Path, *, in_item: bool) -> None:
        """Write a value behind ``prefix`` (``key:`` or ``-``), whose key or dash stands in ``column``."""
        rnd = self.rnd
        name = ""
        if self.anchors and path[0] != "metadata" and not isinstance(value, bool | float | None):
            token = json.dumps(value)
            if token in self.anchored and rnd.random() < 0.8:
                self.lines.append(
                    (f"{prefix} *{self.anchored[token][0]}{self.inline_comment()}", (*path, "alias"))
                )
                return
            if (
                isinstance(value, dict)
                and value
                and rnd.random() < 0.5
                and self.merged(value, prefix, column, path)
            ):
                return
            if rnd.random() < 0.25 and value not in ([], {}, ""):
                self.counter += 1
                name = f"a{self.counter}"
                prefix += f" &{name}"
        self.unanchored(value, prefix, column, path, in_item=in_item and not name)
        if name:
            self.anchored[json.dumps(value)] = (name, value)

    def merged(self, value: dict[str, Any], prefix: str, column: int, path: Path) -> bool:
        """Write a mapping as a merge of an anchored one with own keys, where one fits."""
        for name, base in self.anchored.values():
            if isinstance(base, dict) and base and set(base) < set(value):
                self.lines.append((prefix + self.inline_comment(), path))
                inner = column + 2
                self.lines.append((f"{' ' * inner}<<: *{name}", path))
                self.mapping({k: v for k, v in value.items() if k not in base or base[k] != v}, inner, path)
                return True
        return False

    def unanchored(self, value: Any, prefix: str, column: int, path: Path, *, in_item: bool) -> None:
        rnd = self.rnd
        if isinstance(value, dict | list) and value and rnd.random() > 0.2:
            if isinstance(value, dict):
                if in_item and rnd.random() < 0.85:
                    self.compact(value, prefix, column, path)
                    return
                self.lines.append((prefix + self.inline_comment(), path))
                self.mapping(value, column + rnd.choice([2, 2, 2, 4, 3, 1]), path)
            else:
                self.lines.append((prefix + self.inline_comment(), path))
                self.sequence(value, column + rnd.choice([2, 2, 0, 4] if not in_item else [2, 4]), path)
            return
        gap = rnd.choice([" ", " ", " ", "  "])
        if isinstance(value, dict | list) and value and rnd.random() < 0.4:
            self.flow_lines(value, prefix + gap, column, path)
            return
        if isinstance(value, dict | list):
            self.lines.append((prefix + gap + self.flow(value) + self.inline_comment(), (*path, "flow")))
            return
        if isinstance(value, str) and rnd.random() < 0.8 and (block := self.block_text(value, column)):
            self.lines.append((prefix + gap + block[0] + self.inline_comment(), path))
            self.lines += [(line, path) for line in block[1]]
            return
        if isinstance(value, str) and (wrapped := self.wrapped(value, column, in_item=in_item)):
            self.lines.append((prefix + gap + wrapped[0], path))
            self.lines += [(line, (*path, "wrapped")) for line in wrapped[1:]]
            return
        if value is None and rnd.random() < 0.3:
            self.lines.append((prefix, path))
            return
        self.lines.append((prefix + gap + self.scalar(value, flow=False) + self.inline_comment(), path))

    def flow_lines(self, value: dict[str, Any] | list[Any], prefix: str, column: int, path: Path) -> None:
        """A flow collection with each member on a line of its own."""
        rnd = self.rnd
        brackets = "{}" if isinstance(value, dict) else "[]"
        pad = " " * (column + rnd.choice([2, 4]))
        self.lines.append((prefix + brackets[0] + self.inline_comment(), path))
        members = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
        trailing = rnd.random() < 0.3
        close_here = rnd.random() < 0.2
        for index, (key, item) in enumerate(members):
            label = f"{self.key(key, flow=True)}: " if isinstance(value, dict) else ""
            last = index == len(members) - 1
            comma = "" if last and not trailing else ","
            end = brackets[1] if last and close_here else self.inline_comment()
            self.lines.append((f"{pad}{label}{self.flow(item)}{comma}{end}", (*path, key, "flow")))
        if not close_here:
            self.lines.append((" " * (column + 1) + brackets[1], path))

    def wrapped(self, value: str, column: int, *, in_item: bool) -> list[str] | None:
        """A scalar of several words spread over lines: plain, quoted or folded."""
        rnd = self.rnd
        words = value.split(" ")
        if len(words) < 4 or "\n" in value or "\t" in value or rnd.random() < 0.4:
            return None
        style = rnd.choice(["", "'", '"', ">-"])
        pad = " " * (column + rnd.choice([2, 4]))
        if style == "" and not plain_is_safe(value, flow=False):
            style = '"'
        inner = (
            value.replace("'", "''")
            if style == "'"
            else double_quoted(value)[1:-1]
            if style == '"'
            else value
        )
        lines = [""]
        for index, word in enumerate(inner.split(" ")):
            if index and word and lines[-1] and not lines[-1].endswith(" ") and rnd.random() < 0.4:
                lines.append(word)
            else:
                lines[-1] += f" {word}" if index else word
        if style == ">-":
            return [">-", *(pad + line for line in lines)] if not value.startswith(" ") else None
        lines = [lines[0], *(pad + line for line in lines[1:])]
        return (
            [style + lines[0], *lines[1:-1], lines[-1] + style]
            if len(lines) > 1
            else [style + lines[0] + style]
        )

    def compact(self, value: dict[str, Any], prefix: str, column: int, path: Path) -> None:
        gap = self.rnd.choice([1, 1, 1, 3])
        inner = column + 1 + gap
        first = True
        for key, item in value.items():
            lead = prefix + " " * gap if first else " " * inner
            if not first:
                self.comment(inner, (*path, key))
            first = False
            self.value(item, f"{lead}{self.key(key, flow=False)}:", inner, (*path, key), in_item=False)

    def mapping(self, value: dict[str, Any], column: int, path: Path) -> None:
        for key, item in value.items():
            self.comment(column, (*path, key))
            prefix = f"{' ' * column}{self.key(key, flow=False)}:"
            self.value(item, prefix, column, (*path, key), in_item=False)

    def sequence(self, value: list[Any], column: int, path: Path) -> None:
        for index, item in enumerate(value):
            self.comment(column, (*path, index))
            self.value(item, " " * column + "-", column, (*path, index), in_item=True)


def mutate(rnd: random.Random, obj: dict[str, Any], count: int) -> tuple[dict[str, Any], list[Path]]:
    """A changed copy, and the paths (in the original) whose text may change."""
    changed: list[Path] = []
    result = copy.deepcopy(obj)
    for _ in range(count):
        places = [(path, node) for path, node in _containers(result, ()) if path]
        if not places:
            break
        path, node = rnd.choice(places)
        if any(path[: len(p)] == p or p[: len(path)] == path for p in changed):
            continue  # one change for each branch keeps original paths valid
        if isinstance(node, dict):
            if path == ("metadata",):
                node["labels"] = {"tier": rnd.choice(WORDS)}
                changed.append((*path, "labels"))
                continue
            roll = rnd.random()
            keys = list(node)
            if roll < 0.5 and keys:
                key = rnd.choice(keys)
                old = node[key]
                node[key] = (
                    reworded(rnd, old)
                    if isinstance(old, str) and rnd.random() < 0.7
                    else random_value(rnd, 2)
                )
                changed.append((*path, key))
            elif roll < 0.75 and keys:
                key = rnd.choice(keys)
                del node[key]
                changed.append((*path, key) if node else path)
            else:
                node[rnd.choice(KEYS)] = random_value(rnd, 2)
                changed.append((*path, "") if len(node) > 1 else path)
                changed[-1] = path if not keys else changed[-1]
                if keys and len(node) == len(keys):
                    changed[-1] = path
        else:
            roll = rnd.random()
            if roll < 0.35:
                node.insert(rnd.randint(0, len(node)), random_value(rnd, 2))
            elif roll < 0.6 and node:
                del node[rnd.randrange(len(node))]
            elif roll < 0.8 and node:
                node[rnd.randrange(len(node))] = random_value(rnd, 2)
            else:
                rnd.shuffle(node)
            changed.append(path)
    return result, changed


def reworded(rnd: random.Random, text: str) -> str:
    """The text with a word or a line exchanged, added or removed."""
    separator = "\n" if "\n" in text else " "
    parts = text.split(separator)
    index = rnd.randrange(len(parts))
    roll = rnd.random()
    if roll < 0.5:
        parts[index] = rnd.choice(WORDS)
    elif roll < 0.75:
        parts.insert(index, rnd.choice(WORDS))
    else:
        del parts[index]
    return separator.join(parts)


def _containers(value: Any, path: Path) -> list[tuple[Path, Any]]:
    found: list[tuple[Path, Any]] = []
    if isinstance(value, dict):
        found.append((path, value))
        for key, item in value.items():
            found += _containers(item, (*path, key))
    elif isinstance(value, list):
        found.append((path, value))
        for index, item in enumerate(value):
            found += _containers(item, (*path, index))
    return found


def untouched_lines(lines: list[tuple[str, Path]], changed: list[Path]) -> list[str]:
    """Lines that belong to no changed branch (blank lines and comments of changed branches excluded)."""
    kept: list[str] = []
    for text, path in lines:
        if path == ("blank",):
            continue
        flow = bool(path) and path[-1] == "flow"
        bare = path[:-1] if flow else path
        touched = any(_touches(change, bare, flow=flow) for change in changed)
        if not touched:
            kept.append(text)
    return kept


def _touches(change: Path, path: Path, *, flow: bool) -> bool:
    if path[: len(change)] == change:
        return True
    return change[: len(path)] == path and (flow or change[:-1] == path)
