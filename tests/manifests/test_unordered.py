"""Lists whose order means nothing to the API server."""

from __future__ import annotations

from gitwriter.manifests.editing import EditMode, edit_document

from .changing import HEAD, changed, edited

HPA = """kind: HorizontalPodAutoscaler
metadata: {name: menu}
spec:
  metrics:
  # by load
  - type: Resource
    resource:
      name: cpu
      target: {type: Utilization, averageUtilization: 70}   # tuned
  - type: Resource # by memory
    resource: {name: memory, target: {type: Utilization, averageUtilization: 80}}
  - type: Pods
"""


def test_lists_that_the_server_reorders_do_not_churn() -> None:
    """Metrics, access modes and finalizers in another order are the same. Covers pain 44."""
    claim = "kind: PersistentVolumeClaim\nmetadata: {name: menu}\nspec:\n  accessModes: [RWO, ROX]\n"
    for text, key in ((HPA, "metrics"), (claim, "accessModes")):
        value = changed(text)
        value["spec"][key].reverse()
        assert edit_document(text.encode(), 0, value).mode is EditMode.NO_CHANGE
    value = changed(HPA)
    value["spec"]["metrics"] = [{"type": "Object"}, *value["spec"]["metrics"][::-1]]
    assert edited(HPA, value) == HPA + "  - type: Object\n"


def test_a_changed_item_of_such_a_list_keeps_its_place() -> None:
    """One number of a metric is one line, comments stay, whatever order the server gives."""
    pointer = "/spec/metrics/0/resource/target/averageUtilization"
    value = changed(HPA, (pointer, 75))
    expected = HPA.replace("70", "75")
    assert edited(HPA, value) == expected
    value["spec"]["metrics"].reverse()
    assert edited(HPA, value) == expected
    del value["spec"]["metrics"][0]
    assert edited(HPA, value) == expected.removesuffix("  - type: Pods\n")


def test_the_order_of_a_list_of_the_same_name_counts_elsewhere() -> None:
    """Only where the API says so is order without meaning."""
    text = HEAD + "spec:\n  metrics:\n  - a # first\n  - b\n"
    assert edited(text, changed(text, ("/spec/metrics", ["b", "a"]))) == text.replace(
        "  - a # first\n  - b\n", "  - b\n  - a # first\n"
    )
