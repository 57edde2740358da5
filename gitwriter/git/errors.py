"""Failures of the clone itself.

A clone is disposable: everything in it comes from the remote or can be made again from the journal. So damage
is not repaired: the clone is replaced and the attempt repeated.
"""

from __future__ import annotations

from reverser.errors import TransientError


class CloneDamaged(TransientError):
    """The clone holds unreadable objects or refs; it is thrown away when it is closed, then made anew."""


class CloneUnusable(TransientError):
    """The clone's place on disk cannot be used: in use by another process, not writable, or full."""
