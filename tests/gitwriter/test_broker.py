"""What the broker's client does when the connection to Redis is lost."""

from __future__ import annotations

import uuid
from typing import Any

from kombu import Connection

import reverser.celery  # noqa: F401 - what it sets is tested


def test_a_lost_connection_with_an_unacknowledged_hint_closes_quietly(redis_url: str) -> None:
    """The store goes away while a hint is being taken; an error here would end the worker."""
    queue = f"hints-{uuid.uuid4()}"
    with Connection(redis_url) as connection:
        channel: Any = connection.default_channel
        transport: Any = connection.transport
        simple = connection.SimpleQueue(queue, channel=channel)
        simple.put("write")
        taken = simple.get(timeout=10)
        assert taken.payload == "write"
        transport.client = None
        channel.close()
