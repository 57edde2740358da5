"""A till that kustomize builds, and the real build to compare with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitwriter.manifests import Upsert
from gitwriter.manifests.editing import equal_as_kubernetes
from gitwriter.manifests.kustomize.render import find_renderer
from gitwriter.manifests.loading import load_document

from .folder import text, upsert

RENDERER = find_renderer()
assert RENDERER is not None, "the kubectl wheel of the development requirements is missing"

TILL = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: till
spec:
  replicas: 2
  template:
    spec:
      containers:
      - name: till # the one
        image: reg.lab.test:5000/till:1.0
        env:
        - name: MODE
          value: day
"""


def deployment(
    image: str = "reg.lab.test:5000/till:1.0", replicas: int = 2, mode: str = "day", **more: Any
) -> Upsert:
    """The live till."""
    container = {"name": "till", "image": image, "env": [{"name": "MODE", "value": mode}]}
    containers = [container, *more.pop("others", [])]
    spec = {"replicas": replicas, "template": {"spec": {"containers": containers}}}
    return upsert("Deployment", "till", "shop", spec=spec, **more)


def rendered(files: Mapping[str, str | bytes], root: str = "") -> dict:
    """What the real build gives, by kind, namespace and name."""
    assert RENDERER is not None
    return {key[1:]: load_document(body).value for key, body in RENDERER(text(files), root).items()}


def check_renders(files: Mapping[str, str | bytes], *live: Upsert, root: str = "") -> None:
    """The build gives these objects as they are live."""
    objects = rendered(files, root)
    for change in live:
        assert equal_as_kubernetes(objects[(change.kind, change.namespace, change.name)], change.body)


REPLICAS = """\
namespace: shop
resources: [till.yaml]
replicas:
  - name: till   # evening shift
    count: 3
"""
IMAGES = """\
namespace: shop
resources: [till.yaml]
images:
- name: reg.lab.test:5000/till
  newTag: '1.5' # pinned
"""
