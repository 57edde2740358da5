"""The index: what it costs, what it keeps, and that changing it gives what a fresh scan gives."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml

from gitwriter.manifests import IndexCache, Inventory, MemoryTree, Policy, check, plan_writes
from gitwriter.manifests.emitter import render_document
from gitwriter.manifests.facts import DocumentClass, read_facts
from tests import needs

from .folder import config_map, manifest, scan, text

REAL = Path(__file__).resolve().parents[2].parent / "shared" / "corpus" / "real-manifests"


def test_facts_of_a_file() -> None:
    """Identity, constructs and seal of each document are known without its values."""
    data = manifest("ConfigMap", "a", "shop") + "---\n# words\n---\napiVersion: v1\nkind: Secret\n"
    data += "metadata: {name: b}\nx: &a {<<: *a}\nsops: {mac: m}\n---\n- 1\n---\na: [\n"
    documents = read_facts(data.encode()).documents
    assert [fact.document_class for fact in documents] == [
        DocumentClass.KRM,
        DocumentClass.EMPTY,
        DocumentClass.KRM,
        DocumentClass.NON_KRM,
        DocumentClass.INVALID,
    ]
    assert (documents[0].namespace, documents[0].name) == ("shop", "a")
    assert documents[2].constructs == ("alias", "anchor", "merge-key")
    assert documents[2].sealed
    assert "line" in documents[4].detail


@pytest.mark.parametrize(
    ("construct", "line"),
    [
        ("duplicate-key", "a: 1\na: 2"),
        ("binary", "a: !!binary aGk="),
        ("local-tag", "a: !x 1"),
        ("anchor", "a: &b 1"),
    ],
)
def test_constructs_are_seen(construct: str, line: str) -> None:
    """Each construct that bears on editing is recorded."""
    facts = read_facts((manifest("ConfigMap", "a", "shop") + line + "\n").encode())
    assert facts.documents[0].constructs == (construct,)


def test_cache_survives_on_disk(tmp_path: Path) -> None:
    """A saved cache gives the same facts; damage, another format or absence only cost time."""
    cache = IndexCache()
    inventory = scan({"a.yaml": manifest("ConfigMap", "a", "shop", data={"k": "zq-VALUE"})}, cache=cache)
    cache.save(tmp_path / "index")
    assert b"zq-VALUE" not in (tmp_path / "index").read_bytes()
    loaded = IndexCache.load(tmp_path / "index")
    blob = inventory.files["a.yaml"].entry.blob
    assert loaded.get(blob) == cache.get(blob)
    for content in (b"", b"{}", b"[1]", b'{"format": 0, "files": {}}', b'{"format": 1, "files": {"x": {}}}'):
        (tmp_path / "index").write_bytes(content)
        assert len(IndexCache.load(tmp_path / "index")) == 0
    assert len(IndexCache.load(tmp_path / "none")) == 0


def test_cache_is_bounded() -> None:
    """The least recently used facts go first."""
    cache = IndexCache(capacity=2)
    facts = read_facts(b"")
    for blob in ("a", "b", "a", "c"):
        if cache.get(blob) is None:
            cache.put(blob, facts)
    assert cache.get("b") is None
    assert cache.get("a") is not None


def test_changing_the_ignore_file_changes_the_roles() -> None:
    """An ignore file that comes or goes re-judges every file."""
    files = text({"a.yaml": manifest("ConfigMap", "a", "shop"), "x.sh": ""})
    tree = MemoryTree({**files, ".gittargetignore": b"*.sh\n"})
    inventory = Inventory.scan(MemoryTree(files))
    assert [issue.path for issue in check(inventory)] == ["x.sh"]
    added = [entry for entry in tree.entries() if entry.path == ".gittargetignore"]
    hidden = inventory.updated(added, tree.read)
    assert check(hidden) == ()
    assert [issue.path for issue in check(hidden.updated([], tree.read, removed=[".gittargetignore"]))] == [
        "x.sh"
    ]


def big_folder(count: int) -> dict[str, bytes]:
    """Many files of about 1 KB, as the mirror writes them."""
    return {
        f"ns{number % 20}/configmaps/cm-{number}.yaml": render_document(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"cm-{number}", "namespace": f"ns{number % 20}", "labels": {"app": "x"}},
                "data": {f"key{index}": f"value {number} of some length" for index in range(22)},
            }
        )
        for number in range(count)
    }


def test_cold_scan_costs_at_most_twice_the_fastest_parse() -> None:
    """Indexing takes at most twice the time of parsing with PyYAML's C parser, the fastest at hand."""
    files = big_folder(600)
    tree = MemoryTree(files)
    ratios = []
    for _attempt in range(3):
        started = time.process_time()
        for data in files.values():
            yaml.load(data, Loader=yaml.CSafeLoader)
        parsed = time.process_time()
        Inventory.scan(tree)
        ratios.append((time.process_time() - parsed) / (parsed - started))
    assert min(ratios) < 2


def test_one_change_costs_what_the_change_costs() -> None:
    """With a kept inventory a change among many files is planned in milliseconds."""
    files = big_folder(3000)
    tree = MemoryTree(files)
    inventory = plan_writes(tree, [config_map("first", "ns1")], Policy()).after()
    best = 9.0
    for number in range(5):
        started = time.process_time()
        made = plan_writes(tree, [config_map("cm-1", "ns1", k=str(number))], Policy(), inventory=inventory)
        best = min(best, time.process_time() - started)
        assert list(made.files) == ["ns1/configmaps/cm-1.yaml"]
    assert best < 0.1


def test_a_large_bundle() -> None:
    """A bundle of 5 MB and 2,000 documents is indexed and edited in many places at once."""
    documents = [
        manifest("ConfigMap", f"c{number}", "shop", data={"k": "1", "pad": '"' + "x" * 2400 + '"'})
        for number in range(2000)
    ]
    bundle = "---\n".join(documents)
    assert len(bundle) > 4_900_000
    batch = [config_map(f"c{number}", "shop", k="2", pad="x" * 2400) for number in range(0, 2000, 40)]
    started = time.process_time()
    made = plan_writes(MemoryTree({"all.yaml": bundle.encode()}), batch, Policy())
    assert time.process_time() - started < 20
    assert made.files["all.yaml"] is not None
    assert made.files["all.yaml"].count(b'k: "2"') == 50


@needs.material(REAL)
def test_real_manifests_keep_every_byte() -> None:
    """Scanning, and writing each object as it is, changes no byte of hand-written files."""
    from gitwriter.manifests.changes import Upsert
    from gitwriter.manifests.loading import YamlError, load_document
    from gitwriter.manifests.splitting import split_documents

    checked = 0
    for path in sorted(REAL.rglob("*.y*ml")):
        data = path.read_bytes()
        tree = MemoryTree({"file.yaml": data})
        inventory = Inventory.scan(tree)
        if check(inventory):
            continue
        changes = []
        for document in split_documents(data):
            try:
                loaded = load_document(document.body(data))
            except YamlError:
                continue
            if not loaded.name or loaded.is_sops:
                continue
            group, _slash, version = loaded.api_version.rpartition("/")
            namespaced = bool(loaded.namespace)
            changes.append(
                Upsert(
                    group,
                    version,
                    "any",
                    loaded.kind,
                    namespaced,
                    loaded.namespace,
                    loaded.name,
                    body=loaded.value,
                )
            )
        made = plan_writes(tree, changes, Policy())
        assert dict(made.files) == {}, path
        checked += len(changes)
    assert checked > 20
