"""The code version that a saved cache was made with.

What is remembered of files depends on the code that read them. A release number would identify the code of an
image, but a checkout has none and is upgraded too, with its state directory in place. So the mark is a digest
of the writer's sources and of the libraries' versions; a cache with another mark is discarded.
"""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path

from reverser.buildinfo import build_info

_LIBRARIES = ("PyYAML", "orjson")


@cache
def codeprint() -> str:
    """The mark of the code that runs; read from the sources once."""
    info = build_info()
    mark = hashlib.blake2b(
        f"{info.version} {info.commit} {platform.python_version()}".encode(), digest_size=16
    )
    for name in _LIBRARIES:
        mark.update(f"{name} {version(name)}\n".encode())
    folder = Path(__file__).parents[1]
    for source in sorted(folder.rglob("*.py")):
        mark.update(str(source.relative_to(folder)).encode())
        mark.update(source.read_bytes())
    return mark.hexdigest()
