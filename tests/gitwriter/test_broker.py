"""What the broker's client does when the connection to Redis is lost."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from celery.worker.consumer import Gossip, Mingle
from kombu import Connection

import reverser.celery


def test_a_lost_connection_with_an_unacknowledged_hint_closes_quietly(redis_url: str) -> None:
    """The store goes away while a hint is being taken; an error here would end the worker."""
    queue = f"hints-{uuid.uuid4()}"
    with Connection(redis_url) as connection:
        channel: Any = connection.default_channel
        transport: Any = connection.transport
        simple = connection.SimpleQueue(queue, channel=channel)
        simple.put("write")
        taken = simple.get(timeout=60)
        assert taken.payload == "write"
        transport.client = None
        channel.close()


@pytest.mark.parametrize("answer", ["ack", "reject"])
def test_an_answer_to_a_hint_whose_connection_is_gone_is_dropped(redis_url: str, answer: str) -> None:
    """The hint was taken, then the connection was lost and made anew before it was acknowledged; an error
    here would end the worker.
    """
    with Connection(redis_url) as connection:
        channel: Any = connection.default_channel
        simple = connection.SimpleQueue(f"hints-{uuid.uuid4()}", channel=channel)
        for _ in range(2):
            simple.put("write")
        first, second = simple.get(timeout=60), simple.get(timeout=60)
        first.ack()
        assert first.delivery_tag in channel.qos._dirty, "an answer in time is taken"
        channel.close()
        getattr(second, answer)()
        assert second.acknowledged


def test_a_hint_is_taken_before_it_is_worked_on() -> None:
    """J10, pain 117: a write that outlasts the broker's visibility timeout is not delivered a second time."""
    conf = reverser.celery.app.conf
    assert not conf.task_acks_late
    assert not any(task.acks_late for task in reverser.celery.app.tasks.values())
    assert conf.worker_prefetch_multiplier == 1


@pytest.mark.parametrize("step", [Gossip, Mingle])
def test_workers_do_not_talk_to_each_other(step: Any) -> None:
    """Q03: also a worker that is started without the flags prints no stacks when Redis goes away."""
    assert not step.compatible_transport(step, reverser.celery.app)
