"""REST is tested in the same world as the admin."""

from __future__ import annotations

from tests.dashboard.conftest import operator, viewer, web, web_sandbox

__all__ = ["operator", "viewer", "web", "web_sandbox"]
