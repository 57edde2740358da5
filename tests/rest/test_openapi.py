"""The OpenAPI document is true: schemathesis finds no 500 and no answer that it does not describe."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from django.test import Client
from hypothesis import HealthCheck, Phase, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from reverser.rest.throttling import OPEN
from reverser.store import Store
from reverser.wsgi import application
from tests.dashboard import world

EXAMPLES = 6
# A name that nobody has, or a namespace with no right, is refused though it is well formed.
NOT_PROMISED = [positive_data_acceptance]

schema = schemathesis.openapi.from_wsgi("/api/schema", application)


@pytest.fixture
def full(web: Store) -> None:
    """One of everything, so that answers have content."""
    row = world.target(retention=world.KEPT)
    world.commit(1, row)
    world.request(row)
    world.stream(web, row)
    world.pending(web, row, b"{}")


def test_document() -> None:
    """OpenAPI 3.1, and it names the two ways in."""
    found = Client().get("/api/schema").json()

    assert found["openapi"].startswith("3.1")
    assert set(found["components"]["securitySchemes"]) == {"kubernetesToken", "adminSession"}


def test_every_refusal_is_a_problem() -> None:
    """No operation promises another shape of error."""
    found = Client().get("/api/schema").json()

    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            for code, answer in operation["responses"].items():
                if code >= "400":
                    assert list(answer["content"]) == ["application/problem+json"], (path, method, code)


@schema.include(method="GET").exclude(path="/api/v1/events").parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_reads(case: Any, full: None) -> None:
    """Whatever is asked."""
    if "wait" in (case.query or {}):
        case.query.pop("wait")
    case.call_and_validate(headers={"Authorization": "Bearer reader-token"}, excluded_checks=NOT_PROMISED)


@schema.include(method="POST").parametrize()
@settings(
    max_examples=EXAMPLES * 3,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_writes(case: Any, full: None) -> None:
    """Whatever is sent."""
    if "wait" in (case.query or {}):
        case.query.pop("wait")
    case.call_and_validate(headers={"Authorization": "Bearer shopper-token"}, excluded_checks=NOT_PROMISED)
    assert not OPEN._open
