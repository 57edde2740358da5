"""The path of a GitTarget: what is valid, its normal form, and when two of them overlap.

An invalid path is never mapped to the repository root: whoever asks for the normal form of one gets
an error, because the root is the one place where a mistake sweeps everything.
"""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def path_problem(path: str) -> str:
    """Why this path cannot be used; empty when it can. ``.`` is the repository root."""
    text = path.strip()
    problem = ""
    if not text:
        problem = "is empty; write '.' for the repository root"
    elif text.startswith("/"):
        problem = "starts with '/'; write it relative to the repository root"
    elif "\\" in text:
        problem = "contains a backslash; separate folders with '/'"
    elif _CONTROL.search(text):
        problem = "contains a control character; leave it out"
    elif ".." in text.split("/"):
        problem = "contains a '..' segment; name a folder below the repository root"
    elif ".git" in (part.lower() for part in text.split("/")):
        problem = "contains a '.git' segment; choose another folder"
    else:
        try:
            text.encode()
        except UnicodeEncodeError:
            problem = "is not valid Unicode"
    return problem


def normalize_path(path: str) -> str:
    """The normal form without leading or trailing ``/``; empty for the repository root.

    Raises ValueError for a path that ``path_problem`` refuses.
    """
    problem = path_problem(path)
    if problem:
        raise ValueError(f"path {path[:200]!r} {problem}")
    return "/".join(part for part in path.strip().split("/") if part not in {"", "."})


def paths_overlap(one: str, other: str) -> bool:
    """True when two normal forms are equal or one is an ancestor of the other."""
    if not one or not other or one == other:
        return True
    return one.startswith(other + "/") or other.startswith(one + "/")
