"""What the owner of a kustomization can write instead of a feature that a mirror cannot write through."""

from __future__ import annotations

from collections.abc import Iterable

_GENERATED = "write the objects that it makes as files under resources"
_NAMES = "write the whole names into the files"
_VALUES = "write the values into the files"
_CHART = "let Flux or Argo CD install the chart and mirror the object that names it"
_PARTIAL = "write the change as a partial object in a file of its own and name it under patches with path"
_REMEDIES = {
    "components": "list the component's files under resources",
    "kind Component": "list its files under resources of the kustomization that uses it",
    "configMapGenerator": _GENERATED,
    "secretGenerator": _GENERATED,
    "generators": _GENERATED,
    "helmChartInflationGenerator": _CHART,
    "helmCharts": _CHART,
    "helmGlobals": _CHART,
    "namePrefix": _NAMES,
    "nameSuffix": _NAMES,
    "patchesJson6902": _PARTIAL,
    "patches-json6902": _PARTIAL,
    "patchesStrategicMerge": "name its files under patches with path",
    "remote-base": "copy the base into the repository",
    "replacements": _VALUES,
    "vars": _VALUES,
}


def remedy(problems: Iterable[str]) -> str:
    """What to do about the problems of a kustomization, each once; for those that say it themselves, the
    usual."""
    known = [_REMEDIES.get(problem.partition(":")[0]) for problem in problems]
    listed = list(dict.fromkeys(text for text in known if text))
    if not listed:
        return "correct or remove it"
    return "; ".join([*listed, *(["correct or remove the rest"] if None in known else [])])
