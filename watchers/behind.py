"""Whether the API server is behind a version that it has told already, as after a restore from a backup.

A watch from a version of the future is no error: the server is silent until it gets there, and what happens
meanwhile is not reported. A list says where the server is.
"""

from __future__ import annotations

from reverser.kube.aio import AsyncKube
from watchers.facts import is_cursor, not_newer


async def is_behind(kube: AsyncKube, path: str, version: str) -> bool:
    """Compare ``version`` with a list of one object of the collection. False where either cannot be compared.
    Raises the error tree.
    """
    async for page in kube.pages(path, limit=1):
        now = page.resource_version
        return is_cursor(now) and is_cursor(version) and not not_newer(version, now)
    return False
