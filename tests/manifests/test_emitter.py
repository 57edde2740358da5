"""New documents: one spelling, read back the same by every reader."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gitwriter.manifests.emitter import natural_key, render_document
from gitwriter.manifests.loading import load_document
from gitwriter.manifests.splitting import split_documents
from tests import needs

from .readers import kubernetes_reads, kubernetes_reads_all, yaml_1_1_reads, yaml_1_2_reads

ID: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "menu", "namespace": "shop"},
}

TRICKY = [
    "yes", "no", "on", "off", "y", "n", "Y", "true", "False", "null", "~", "Null", "NULL", "", "1", "1.0",
    "01", "007", "0o17",
    "0x1F", "0b11", "1e3", "1_000", ".5", "+1", "-0", ".inf", ".NaN", "12:30:45", "190:20:30", "2031-01-01",
    "2031-01-01T00:00:00Z", "1e", "=", "<<", "- a", "-", "? a", "a: b", "a :b", "a #b", "#a", "&a", "*a",
    "!a", "@a", "`", "%a",
    "|", ">", "{a}", "[a]", ",a", '"', "'", "\\", "a\\nb", " lead", "trail ", "\t", "---", "...", "key:",
    "08", "09", "00", "1.10",
    "1.2.3", "v1.2", "nan", "inf", "Infinity", "a\r\nb\r\n", "a\n---\nb\n", "a \nb\n", "a\n\tb\n", "\n",
    "\n\n", "\na\n", " a\nb\n",
    "a\n b\n\nc\n\n\n", "# c\n", "e\u0301 é", "👩‍👩‍👧", "\u202eabc", "\x01\x1f\x7f", "\u00a0", "\ufeff",
    "\uffff", "\ufffd", "\U0001f600",
    "\u2028\u2029\x85", "x" * 400 + " " + "y" * 400, "key: |\n  block\n", "a\n", "a\n\n", "a",
]  # fmt: skip


def test_shape_of_a_new_document() -> None:
    """Order, indentation, flush lists, literal blocks, empties, no folding, one final newline. Covers K13."""
    obj = {
        "spec": {
            "k10": 1,
            "k2": [{"b": [], "a": {}}, [1, [2]], "x", None],
            "run": "#!/bin/sh\necho hi\n",
            "end": "a\nb",
            "more": "a\n\n",
            "long": "word " * 40 + "end",
            "q": "0644",
        },
        "status": {"x": 1},
        "data": {"z": True},
        "kind": "Thing",
        "metadata": {"namespace": "shop", "name": "menu", "labels": {}, "annotations": {"b": "1", "a": "x"}},
        "apiVersion": "v1",
    }
    assert render_document(obj).decode() == (
        "apiVersion: v1\n"
        "kind: Thing\n"
        "metadata:\n"
        "  annotations:\n"
        "    a: x\n"
        '    b: "1"\n'
        "  name: menu\n"
        "  namespace: shop\n"
        "data:\n"
        "  z: true\n"
        "spec:\n"
        "  end: |-\n"
        "    a\n"
        "    b\n"
        "  k2:\n"
        "  - a: {}\n"
        "    b: []\n"
        "  - - 1\n"
        "    - - 2\n"
        "  - x\n"
        "  - null\n"
        "  k10: 1\n"
        f"  long: {'word ' * 40}end\n"
        "  more: |+\n"
        "    a\n"
        "\n"
        '  q: "0644"\n'
        "  run: |\n"
        "    #!/bin/sh\n"
        "    echo hi\n"
    )


def test_keys_sort_by_number() -> None:
    """Digit runs compare as numbers; the order is total."""
    keys = ["k10", "k2", "k02", "a", "k", "K", "k2a", "10", "9"]
    assert sorted(keys, key=natural_key) == ["9", "10", "K", "a", "k", "k02", "k2", "k2a", "k10"]


@pytest.mark.parametrize("reader", [kubernetes_reads, yaml_1_1_reads, yaml_1_2_reads])
def test_tricky_strings_survive_every_reader(reader: Any) -> None:
    """Values, list items and keys come back as the same strings. Covers K06, K10, K11."""
    obj = {
        **ID,
        "data": {f"k{index}": text for index, text in enumerate(TRICKY)},
        "list": TRICKY,
        "keys": dict.fromkeys(TRICKY, 1),
    }
    assert reader(render_document(obj)) == obj


def test_a_value_with_markers_is_one_document(tmp_path: Path) -> None:
    """Pain 15: neither this splitter nor kubectl nor kustomize takes a line of a value for a marker."""
    values = ["a\n---\nb\n", "---", "---\n", "\n---\na", "...\n", "x\n...\n--- y\n%TAG !a b\n", " ---\n---\n"]
    obj = {**ID, "data": {f"k{number}": value for number, value in enumerate(values)}}
    text = render_document(obj)
    assert len(split_documents(text + b"---\n" + text)) == 2
    assert kubernetes_reads_all(text + b"---\n" + text.replace(b"menu", b"list")) == [
        obj,
        {**obj, "metadata": {**obj["metadata"], "name": "list"}},
    ]
    (tmp_path / "menu.yaml").write_bytes(text)
    (tmp_path / "kustomization.yaml").write_text("resources: [menu.yaml]\n")
    built = subprocess.run(
        [needs.kubectl(), "kustomize", str(tmp_path)], capture_output=True, timeout=240, check=True
    )
    assert yaml_1_2_reads(built.stdout) == obj


def test_random_strings_survive_kubectl() -> None:
    """Thousands of random strings in one call: no difference."""
    rnd = random.Random(3)
    alphabet = [
        *"abzYN019 .:-#,[]{}&*!|>'\"%@`\\/_~=<+?\n\t\r",
        "\n",
        " ",
        "é",
        "👋",
        "\u00a0",
        "\ufeff",
        "\u2028",
        "\x01",
    ]
    texts = ["".join(rnd.choices(alphabet, k=rnd.randint(0, 12))) for _ in range(5000)]
    texts += ["".join(rnd.choices("0123456789+-.eExob_:", k=rnd.randint(1, 7))) for _ in range(3000)]
    obj = {**ID, "data": {f"k{i}": t for i, t in enumerate(texts)}, "keys": dict.fromkeys(texts[:2500], 1)}
    rendered = render_document(obj)
    assert kubernetes_reads(rendered) == obj
    assert yaml_1_1_reads(rendered) == obj


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**63), max_value=2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(TRICKY)
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=("Cs",)), max_size=8), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["spec", "data", "rules"]), JSON, min_size=1))
def test_any_object_reads_back(fields: dict[str, Any]) -> None:
    """What is rendered reads as the same object, with our reader and with a YAML 1.1 reader."""
    obj = {**ID, **fields}
    rendered = render_document(obj)
    assert load_document(rendered).value == obj
    assert yaml_1_1_reads(rendered) == obj
    assert b"\r" not in rendered
    assert rendered.endswith(b"\n")


def test_the_same_bytes_in_every_process_and_order() -> None:
    """Key order, hash seed and locale do not show. Covers K13."""
    code = (
        "import random,sys;from gitwriter.manifests import emitter\n"
        "k=[f'I{i}' for i in range(30)]+['i','İ','ı'];random.Random(int(sys.argv[1])).shuffle(k)\n"
        "o={'kind':'X','apiVersion':'v1','metadata':{'name':'a'},'data':{x:x for x in k}}\n"
        "sys.stdout.buffer.write(emitter.render_document(o))"
    )
    outputs = set()
    for seed, locale in (("1", "C"), ("2", "tr_TR.UTF-8")):
        env = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "LC_ALL": locale,
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        done = subprocess.run(
            [sys.executable, "-c", code, seed], env=env, capture_output=True, check=True, timeout=240
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1


def test_shared_python_objects_make_no_anchors() -> None:
    """The same dict in two places is written twice."""
    labels = {"app": "web"}
    assert b"&" not in render_document({**ID, "spec": {"selector": labels, "template": labels}})


def test_what_json_cannot_hold_is_refused() -> None:
    """NaN and foreign types are errors, never text."""
    with pytest.raises(ValueError, match="NaN"):
        render_document({**ID, "x": float("nan")})
    with pytest.raises(TypeError, match="bytes"):
        render_document({**ID, "x": b"raw"})


def test_too_deep_an_object_is_refused() -> None:
    """What could not be read again is not written."""
    deep: Any = "x"
    for _ in range(2000):
        deep = {"a": [deep]}
    with pytest.raises(ValueError, match="nests deeper"):
        render_document({**ID, "spec": deep})


def test_a_very_long_key_is_an_explicit_key() -> None:
    """Readers give up on implicit keys of more than 1024 characters."""
    obj = {**ID, "k" * 1500: {"a": 1}, "spec": [{"x" * 1500: [1]}, {"y" * 1500: "text\n"}]}
    assert kubernetes_reads(render_document(obj)) == obj


def test_not_slower_than_the_c_dumper() -> None:
    """A Deployment with sixty variables renders at least as fast as PyYAML's C dumper dumps it."""
    env = [{"name": f"VAR_{i}", "value": f"http://service-{i}.example:80/path"} for i in range(60)]
    obj = {**ID, "spec": {"containers": [{"name": "web", "image": "nginx:1.27", "env": env}]}}

    def best(action: Any) -> float:
        times = []
        for _ in range(5):
            started = time.process_time()
            for _ in range(10):
                action()
            times.append(time.process_time() - started)
        return min(times)

    assert best(lambda: render_document(obj)) <= best(lambda: yaml.dump(obj, Dumper=yaml.CSafeDumper))
