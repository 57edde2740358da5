"""What the metrics tell of new documents and of those that found no place."""

from __future__ import annotations

from prometheus_client import REGISTRY

from gitwriter.manifests import Policy
from gitwriter.outcomes import placements_of
from tests.manifests.folder import config_map, manifest, plan, sealed_secret, upsert

from .conftest import World
from .test_writer import seed, shutdown_write


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"gitopsreverser_{name}", labels) or 0.0


def test_new_documents_are_told_by_rule_file_and_type() -> None:
    """A file of its own or a place behind others; what is edited or skipped is no placement."""
    files = {"all.yaml": manifest("ConfigMap", "a", "shop") + "---\n" + manifest("ConfigMap", "b", "shop")}
    service = upsert("Service", "web", "shop", spec={"ports": []})
    made = plan(files, config_map("c"), config_map("a", k="v"), service)
    assert placements_of(made) == {
        ("inferred", "appended", "", "v1", "configmaps"): 1,
        ("canonical", "new_file", "", "v1", "services"): 1,
    }
    declared = Policy(default="x/{namespace}/{name}.yaml")
    assert placements_of(plan({}, config_map("c"), policy=declared)) == {
        ("declared", "new_file", "", "v1", "configmaps"): 1
    }


def test_placements_and_refusals_are_counted(world: World) -> None:
    """Each new document once it is pushed, each object without a permitted place by its reason."""
    labels = {
        "source": "canonical",
        "disposition": "new_file",
        "group": "",
        "version": "v1",
        "resource": "configmaps",
        "gittarget_namespace": world.target.namespace,
        "gittarget_name": world.target.name,
    }
    reason = "plaintext_onto_encrypted"
    sealed = sealed_secret("other").sealed
    assert sealed is not None
    seed(world, "live/shop/configmaps/b.yaml", sealed.decode())
    placed = value("placements_total", **labels)
    refused = value("placement_refusals_total", reason=reason)
    world.event("b", "1")
    world.event("a", "1")
    shutdown_write(world)
    assert value("placements_total", **labels) == placed + 1
    assert value("placement_refusals_total", reason=reason) == refused + 1
