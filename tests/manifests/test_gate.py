"""What refuses a path, what does not, and how it is said."""

from __future__ import annotations

import time

import pytest

from gitwriter.manifests import Actor, IssueKind, Limits, MemoryTree, check, refusal_message, refusal_reason
from gitwriter.manifests.inventory import Inventory
from gitwriter.manifests.roles import is_hidden
from gitwriter.manifests.tree import MODE_SUBMODULE, MODE_SYMLINK

from .folder import config_map, manifest, plan, scan, text

CM = manifest("ConfigMap", "menu", "shop", data={"soup": "leek"})
DEPLOY = manifest("Deployment", "till", "shop")


def kinds(files: dict, **options) -> list[str]:
    return [issue.kind.value for issue in check(scan(files, **options))]


@pytest.mark.parametrize(
    ("path", "content", "kind"),
    [
        ("deploy.sh", "echo", "foreign-file"),
        ("notes.txt", "x", "foreign-file"),
        ("data.json", "{}", "foreign-file"),
        ("X.YAML", CM, "foreign-file"),
        ("Kustomization", "resources: []", "foreign-file"),
        ("sub/.gittargetignore", "x", "foreign-file"),
        ("values.yaml", "replicas: 2\n", "non-krm-yaml"),
        ("list.yaml", "- a\n", "non-krm-yaml"),
        ("scalar.yaml", "just text\n", "non-krm-yaml"),
        ("nameless.yaml", "apiVersion: v1\nkind: List\nitems: []\n", "non-krm-yaml"),
        ("number.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: 12\n", "non-krm-yaml"),
        ("broken.yaml", "a: [1\n", "invalid-yaml"),
        ("tab.yaml", "a:\n\tb: 1\n", "invalid-yaml"),
        ("nul.yaml", b"a: \x00\n", "invalid-yaml"),
        ("latin.yaml", b"a: \xff\xfe\n", "invalid-yaml"),
        ("deep.yaml", "a: " + "[" * 200 + "]" * 200 + "\n", "invalid-yaml"),
        ("x.sops.yaml", manifest("Secret", "x", "shop", data={"k": "v"}), "invalid-yaml"),
        ("cm.yaml", CM + "---\n# nothing\n", "impure-managed-file"),
        ("cm.yaml", CM + "---\njust: data\n", "impure-managed-file"),
        ("cm.yaml", CM + "---\n---\n" + CM.replace("menu", "b"), "impure-managed-file"),
        ("cm.yaml", CM + "---\na: [1\n", "impure-managed-file"),
        ("cm.yaml", CM + "---\n" + CM, "duplicate-identity"),
        ("kustomization.yaml", "resources: []\n---\n" + CM, "mixed-managed-allowlisted"),
    ],
)
def test_one_bad_file_refuses_the_path(path: str, content: str | bytes, kind: str) -> None:
    """N01: each kind of content that is not ours refuses the path, naming the file, and nothing is
    written.
    """
    files = {"ok.yaml": DEPLOY, path: content}
    issues = check(scan(files))
    assert [kind] == [issue.kind.value for issue in issues]
    assert path == issues[0].path
    assert refusal_message(issues).startswith(f"Git path refused at {path}: ")
    refused = plan(files, config_map("menu", soup="kale"))
    assert refused.refused
    assert dict(refused.files) == {}


def test_what_a_target_of_a_folder_below_left_behind_refuses_nothing() -> None:
    """B06, B08, N01: a wider target takes over where a narrower one is gone; a nested ignore file that
    somebody wrote patterns into refuses as ever.
    """
    left = {f"app/{path}": data for path, data in plan({}, config_map("menu")).files.items() if data}
    assert "app/.gittargetignore" in left
    assert check(scan(left)) == ()
    ours = left["app/.gittargetignore"]
    assert kinds({"app/.gittargetignore": ours + b"*.sh\n"}) == ["foreign-file"]
    assert kinds({"app/other.txt": ours}) == ["foreign-file"]


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"cm.yaml": "# licence\n---\n" + CM},
        {"cm.yaml": "\n---\n" + CM},
        {"cm.yaml": CM + "---\n"},
        {"cm.yaml": CM + "---\n\n"},
        {"cm.yaml": "---\n" + CM + "...\n"},
        {"cm.yaml": '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "j"}}'},
        {"note.yaml": "# only words\n", "cm.yaml": CM},
        {"README.md": "x", "sub/README.md": "x", "sub/a.markdown": "x", ".sops.yaml": "creation_rules: []"},
        {"LICENSE": "x", "NOTICE.txt": "x", "a/.gitkeep": "", ".gitignore": "", ".gitattributes": ""},
        {"deploy.sh": "x", ".gittargetignore": "# c\n  *.sh  \n"},
        {"s/cm.yaml": CM, "s/deploy.sh": "x", ".gittargetignore": "s/\n"},
        {"a.yaml": CM, "b.yaml": manifest("ConfigMap", "menu", "depot")},
        {"a.yaml": DEPLOY, "b.yaml": DEPLOY.replace("apps/v1", "extensions/v1beta1")},
    ],
)
def test_what_does_not_refuse(files: dict) -> None:
    """Framing, inert files, ignored files and same names in different places are all fine."""
    assert check(scan(files)) == ()


@pytest.mark.parametrize(
    ("path", "content", "advice"),
    [
        ("b.json", "{}", "where it holds a manifest, rename it to b.yaml"),
        ("D.YAML", CM, "rename it to D.yaml, else"),
        ("Kustomization", "resources: []", "rename it to kustomization.yaml to have it built, else"),
        ("run.sh", "x", "does not manage; remove it or list it in"),
        (
            "job.yaml",
            "apiVersion: batch/v1\nkind: Job\nmetadata:\n  generateName: x-\n",
            "a Job without metadata.name",
        ),
        ("list.yaml", "apiVersion: v1\nkind: List\nitems: []\n", "a List without a name: write its items as"),
        ("kind.yaml", "apiVersion: v1\nmetadata:\n  name: x\n", "(it lacks kind)"),
        ("api.yaml", "kind: ConfigMap\nmetadata:\n  name: x\n", "(it lacks apiVersion)"),
        (
            "n.yaml",
            CM.replace("name: menu", "name: y"),
            '(metadata.name is "y", which is no text to Kubernetes: quote it)',
        ),
        ("v.yaml", "replicas: 2\n", "YAML is not a Kubernetes manifest; remove it or list it in"),
        (
            "two.yaml",
            CM + "---\n" + CM.replace("name: menu", "name: 12"),
            'a Kubernetes manifest (metadata.name is "12"',
        ),
    ],
)
def test_what_is_nearly_a_manifest_is_told_what_it_lacks(path: str, content: str, advice: str) -> None:
    """A file that its owner takes for a manifest says why it is none, and what makes it one."""
    (issue,) = check(scan({path: content}))
    assert advice in issue.message


def test_several_issues_are_counted_in_order() -> None:
    """N01: three issues end with the number of the others, sorted by path."""
    issues = check(scan({"z.sh": "", "a.txt": "", "values.yaml": "replicas: 2"}))
    assert [issue.path for issue in issues] == ["a.txt", "values.yaml", "z.sh"]
    assert refusal_message(issues).endswith(" (and 2 more issue(s))")
    assert refusal_reason(issues) == "UnsupportedContent"


def test_duplicate_names_both_places() -> None:
    """The message of a duplicate names the identity, the second and the first place."""
    issue = check(scan({"a.yaml": CM, "b.yaml": CM}))[0]
    assert (issue.kind, issue.path) == (IssueKind.DUPLICATE_IDENTITY, "b.yaml")
    for part in ("v1/ConfigMap/shop/menu", "b.yaml#0", "a.yaml#0"):
        assert part in issue.message


def test_two_versions_are_duplicates() -> None:
    """Two versions of one object are one identity."""
    one = CM.replace("v1", "autoscaling/v1").replace("ConfigMap", "HorizontalPodAutoscaler")
    assert kinds({"a.yaml": one, "b.yaml": one.replace("/v1", "/v2")}) == ["duplicate-identity"]


def test_documents_we_cannot_edit_claim_their_identity() -> None:
    """L13: a document with anchors holds its identity, so a twin is a duplicate and it alone is fine."""
    anchored = CM + "x: &a 1\ny: *a\n"
    assert check(scan({"a.yaml": anchored})) == ()
    assert kinds({"a.yaml": anchored, "b.yaml": CM}) == ["duplicate-identity"]


@pytest.mark.parametrize("pattern", ["*", "**", "/", "*.yaml", "*.yml", "**/*", "**/*.yaml", "**/*.yml"])
def test_catastrophic_patterns_refuse(pattern: str) -> None:
    """N08: a pattern that hides everything refuses with its own reason and is quoted."""
    issues = check(scan({".gittargetignore": f"# c\n  {pattern} \n", "cm.yaml": CM}))
    assert refusal_reason(issues) == "IgnoreShadowsManagedPath"
    assert f'"{pattern}"' in issues[0].message


@pytest.mark.parametrize("pattern", ["*.yaml.bak", "/docs", "#*", "!*.yaml"])
def test_ordinary_patterns_do_not(pattern: str) -> None:
    """N08: patterns that only look similar are fine."""
    assert check(scan({".gittargetignore": pattern + "\n", "cm.yaml": CM})) == ()


def test_ignored_and_other_issues_together_are_unsupported_content() -> None:
    """The ignore reason stands only when nothing else is wrong."""
    assert refusal_reason(check(scan({".gittargetignore": "*\n", "a.sh": ""}))) == "UnsupportedContent"


def test_recognised_names_cannot_be_hidden() -> None:
    """N10: ignoring kustomization.yaml, README.md and .sops.yaml has no effect."""
    inventory = scan(
        {
            ".gittargetignore": "kustomization.yaml\nREADME.md\n.sops.yaml\n",
            "kustomization.yaml": "namespace: shop\nresources: [cm.yaml]\n",
            "cm.yaml": manifest("ConfigMap", "menu"),
            "README.md": "ours",
            ".sops.yaml": "x: 1",
        }
    )
    assert check(inventory) == ()
    assert inventory.context.namespace("cm.yaml") == "shop"
    assert {"README.md", ".sops.yaml"} == set(inventory.retained)


def test_recognised_names_are_written_whatever_the_ignore_file_says() -> None:
    """N10: a new resource is listed in a kustomization that a pattern names; a hidden folder stays closed."""
    files = {
        ".gittargetignore": "kustomization.yaml\nREADME.md\n.sops.yaml\n",
        "kustomization.yaml": "namespace: shop\nresources:\n- cm.yaml\n",
        "cm.yaml": manifest("ConfigMap", "menu", data={"v": "x"}),
    }
    made = plan(files, config_map("card", v="x"))
    assert made.issues == ()
    assert made.files["kustomization.yaml"] == b"namespace: shop\nresources:\n- cm.yaml\n- card.yaml\n"
    assert "README.md" in made.files
    hidden = scan({".gittargetignore": "old/\n"})
    assert is_hidden("old/kustomization.yaml", hidden.rules)


def test_reincluding_does_not_reach_into_an_excluded_folder() -> None:
    """A folder that is excluded stays so, whatever a later rule says about its files."""
    files = {
        ".gittargetignore": "docs/\n!docs/keep.sh\n*.txt\n!good.txt\n",
        "docs/keep.sh": "",
        "good.txt": "",
    }
    assert [issue.path for issue in check(scan(files))] == ["good.txt"]


@pytest.mark.parametrize(
    ("mode", "kind"), [(MODE_SYMLINK, "foreign-symlink"), (MODE_SUBMODULE, "foreign-submodule")]
)
def test_links_and_submodules_refuse(mode: int, kind: str) -> None:
    """N11: a symlink (file, folder or dangling) or a submodule refuses and is never read; ignored ones do
    not.
    """
    files = text({"cm.yaml": CM, "shop": "/tmp/escape"})
    issues = check(Inventory.scan(MemoryTree(files, links={"shop": mode})))
    assert [kind] == [issue.kind.value for issue in issues]
    files[".gittargetignore"] = b"shop\n"
    hidden = MemoryTree(files, links={"shop": mode})
    assert check(Inventory.scan(hidden)) == ()


def test_values_files_of_helm_objects_are_read_only_context() -> None:
    """A values file that a HelmRelease or an Application in the path names is no stray YAML."""
    release = (
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: web, namespace: shop}\n"
        "spec:\n  chart:\n    spec:\n      valuesFiles: [./charts/web/values-prod.yaml]\n"
    )
    application = (
        "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: web, namespace: argocd}\n"
        "spec:\n  sources:\n  - helm:\n      valueFiles: [$values/apps/web.yaml]\n"
    )
    files = {
        "hr.yaml": release,
        "app.yaml": application,
        "charts/web/values-prod.yaml": "a: 1\n",
        "apps/web.yaml": "b: 2\n",
    }
    assert check(scan(files)) == ()
    assert kinds({**files, "other.yaml": "c: 3\n"}) == ["non-krm-yaml"]


def test_limits_refuse_by_name() -> None:
    """N16: files too many, too big or with too many documents refuse with the file or the number named."""
    assert kinds(
        {f"{n}.yaml": manifest("ConfigMap", f"c{n}", "a") for n in range(4)}, limits=Limits(files=3)
    ) == ["limit-exceeded"]
    issue = check(scan({"big.yaml": CM + "#" * 2000}, limits=Limits(file_bytes=1000)))[0]
    assert (issue.kind, issue.path) == (IssueKind.LIMIT_EXCEEDED, "big.yaml")
    many = "---\n".join(manifest("ConfigMap", f"c{n}", "a") for n in range(5))
    assert kinds({"many.yaml": many}, limits=Limits(documents_per_file=4)) == ["limit-exceeded"]
    assert kinds({"a.yaml": CM}, limits=Limits(tree_bytes=10)) == ["limit-exceeded"]
    both = check(scan({"a.yaml": CM, "big.yaml": CM + "#" * 2000}, limits=Limits(files=1, file_bytes=1000)))
    assert [found.path for found in both] == ["big.yaml", "."], "the message names the first"


@pytest.mark.parametrize(
    "content",
    [
        "a: &a [x, x]\n"
        + "".join(
            f"{c}: &{c} [*{p}, *{p}, *{p}, *{p}]\n" for p, c in zip("abcdefghi", "bcdefghij", strict=True)
        ),
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: big}\ndata:\n  k: " + "x" * 7_000_000 + "\n",
        "a: " + "{b: " * 5000 + "}" * 5000,
        "? [a, b]\n: c\n",
        "kind: A\n" + "---\n" * 1_500_000,
        "kind: A\n" + "\n" * 7_000_000,
        "apiVersion: v1\nkind: A\nmetadata: {name: a}\ndata:\n" + "  a: b\n" * 100_000,
    ],
)
def test_hostile_files_are_judged_quickly(content: str) -> None:
    """Alias bombs, giant scalars and deep nesting cost at most a second and never crash."""
    started = time.process_time()
    check(scan({"x.yaml": content}))
    assert time.process_time() - started < 2


def test_kustomization_problems_refuse() -> None:
    """M16: two kustomizations in one folder, cycles, missing and outside entries refuse, and terminate."""
    empty = "resources: []\n"
    assert kinds({"kustomization.yaml": empty, "kustomization.yml": empty}) == ["unsupported-kustomize"]
    cycle = {"a/kustomization.yaml": "resources: [../b]\n", "b/kustomization.yaml": "resources: [../a]\n"}
    assert kinds(cycle) == ["unsupported-kustomize"] * 2
    for entry in (
        "missing.yaml",
        "../outside",
        "github.com/o/r",
        "git@host:x",
        "https://h/x",
        "example.org/x",
    ):
        assert kinds({"kustomization.yaml": f"resources: ['{entry}']\n"}) == ["unsupported-kustomize"], entry


@pytest.mark.parametrize(
    "section",
    [
        "images: [{newTag: '1'}]",
        "images: [{name: a, tag: '1'}]",
        "images: [{name: a, newTag: 1.29}]",
        "images: [{name: a, newTag: ''}]",
        "images: {name: a}",
        "replicas: [{name: a, count: '3'}]",
        "replicas: [{name: a, count: 1.5}]",
        "replicas: [{name: a, count: -1}]",
        "replicas: [{name: a}]",
        "vars: [{name: v}]",
        "configMapGenerator: [{name: c}]",
        "somethingNew: []",
        "namePrefix: x-",
        "components: [c]",
        "helmCharts: [{name: c}]",
        "patches: [{patch: '- op: add'}]",
        "somethingNew: true",
        "kind: Component",
    ],
)
def test_kustomize_features_that_refuse(section: str) -> None:
    """M10: malformed overrides and everything we do not model refuse; the message names it."""
    issues = check(scan({"kustomization.yaml": f"resources: []\n{section}\n"}))
    assert [issue.kind.value for issue in issues] == ["unsupported-kustomize"]


@pytest.mark.parametrize(
    ("section", "feature"),
    [
        (
            "resources: []\nimages: [{name: a, newTag: '1', tagSuffix: -debian}]",
            "malformed-images: entry 0: unknown field tagSuffix",
        ),
        (
            "resources: ['https://git.lab.test/base?ref=v1']",
            'remote-base: "https://git.lab.test/base?ref=v1"',
        ),
        ("resources: [github.com/o/r//base]", 'remote-base: "github.com/o/r//base"'),
        ("bases: ['git@git.lab.test:o/r.git']", 'remote-base: "git@git.lab.test:o/r.git"'),
        ("resources: [git.lab.test/o/base]", 'remote-base: "git.lab.test/o/base"'),
        (
            "resources: []\nreplicas: [{name: a, count: '3'}]",
            "malformed-replicas: entry 0: count of a must be a whole number, 0 or more",
        ),
        (
            "resources: []\npatches: [{patch: '- op: add'}]",
            "patches-inline: put the patch into a file of its own and name it with path",
        ),
        ("resources: []\nvars: [{name: v}]", "vars"),
        ("resources: []\nvars: [{name: v}]\nnamePrefix: x-", "namePrefix, vars"),
    ],
)
def test_the_feature_that_refuses_is_named(section: str, feature: str) -> None:
    """M10: in the words that users search for; and the condition's reason is that of foreign content."""
    issues = check(scan({"apps/kustomization.yaml": f"{section}\n"}))
    assert [(issue.kind.value, issue.path) for issue in issues] == [
        ("unsupported-kustomize", "apps/kustomization.yaml")
    ]
    assert issues[0].message.startswith(f"unsupported in apps/kustomization.yaml: {feature}; ")
    assert refusal_reason(issues) == "UnsupportedContent"
    assert issues[0].solvable and issues[0].actor is Actor.REPOSITORY_AUTHOR


@pytest.mark.parametrize(
    ("section", "advice"),
    [
        ("configMapGenerator: [{name: a}]", "write the objects that it makes as files under resources"),
        ("namePrefix: x-", "write the whole names into the files"),
        ("namePrefix: x-\nnameSuffix: -x", "write the whole names into the files"),
        ("components: [../c]", "list the component's files under resources"),
        ("kind: Component", "list its files under resources of the kustomization that uses it"),
        ("bases: [github.com/o/r//base]", "copy the base into the repository"),
        (
            "helmCharts: [{name: a}]",
            "let Flux or Argo CD install the chart and mirror the object that names it",
        ),
        ("patchesStrategicMerge: [a.yaml]", "name its files under patches with path"),
        (
            "patchesJson6902: [{path: a.yaml}]\nvars: [{name: v}]",
            "under patches with path; write the values into the files",
        ),
        ("transformers: [t.yaml]", "correct or remove it"),
        (
            "namePrefix: x-\ntransformers: [t]",
            "write the whole names into the files; correct or remove the rest",
        ),
    ],
)
def test_what_to_write_instead_is_said(section: str, advice: str) -> None:
    """Each feature that refuses has its own way out, said once."""
    (issue,) = check(scan({"kustomization.yaml": f"resources: []\n{section}\n"}))
    assert issue.message.endswith(f"{advice}, or mirror another path")
    assert issue.message.count(advice) == 1


@pytest.mark.parametrize(
    "section",
    [
        "replicas: [{name: a, count: 0}]",
        "images: [{name: a, newTag: '1.29'}]",
        "configMapGenerator: []\ncomponents:\nnamePrefix: ''\nvars: []",
    ],
)
def test_well_formed_overrides_are_accepted(section: str) -> None:
    """M10: count 0 and a quoted tag are fine, and so is what is empty and hence does nothing."""
    assert check(scan({"kustomization.yaml": f"resources: []\n{section}\n"})) == ()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "- a\n",
        "resources: [a.yaml]\nresources: []\n",
        "a: &a [x, x]\n"
        + "".join(
            f"{c}: &{c} [*{p}, *{p}, *{p}, *{p}]\n" for p, c in zip("abcdefghij", "bcdefghijk", strict=True)
        ),
        "a: [1\n",
        b"\xff\xfe",
        "resources: !x []\n",
        "resources: text\n",
        "resources: [/etc/passwd]\n",
        "resources: [..]\n",
        "patches: [{path: ../x.yaml}]\n",
        "patches: [{path: none.yaml}]\n",
    ],
)
def test_hostile_kustomizations_refuse(content: str | bytes) -> None:
    """A kustomization that cannot be read for certain refuses, quickly, whatever is in it."""
    started = time.process_time()
    assert kinds({"kustomization.yaml": content}) == ["unsupported-kustomize"]
    assert time.process_time() - started < 2


def test_a_patch_that_is_a_list_refuses() -> None:
    """A JSON patch in a file is not supported and is named."""
    files = {"kustomization.yaml": "patches: [{path: p.yaml}]\n", "p.yaml": "- op: add\n"}
    assert "patches-json6902" in next(
        issue.message for issue in check(scan(files)) if "kustomize" in issue.kind
    )


def test_overlays_with_the_same_name_are_no_duplicates() -> None:
    """N15: two folders whose kustomizations set different namespaces hold different objects."""
    cm = manifest("ConfigMap", "menu")
    files = {
        "env1/kustomization.yaml": "namespace: shop\nresources: [cm.yaml]\n",
        "env1/cm.yaml": cm,
        "env2/kustomization.yaml": "namespace: depot\nresources: [cm.yaml]\n",
        "env2/cm.yaml": cm,
    }
    assert check(scan(files)) == ()


def test_ambiguous_namespace_names_both_kustomizations() -> None:
    """A file that two builds put into different namespaces refuses and both are named; cluster-scoped
    kinds do not.
    """
    files = {
        "a/kustomization.yaml": "namespace: shop\nresources: [../cm.yaml]\n",
        "b/kustomization.yaml": "namespace: depot\nresources: [../cm.yaml]\n",
        "cm.yaml": manifest("ConfigMap", "menu"),
    }
    issue = check(scan(files))[0]
    assert IssueKind.AMBIGUOUS_NAMESPACE is issue.kind
    assert "a/kustomization.yaml" in issue.message
    assert "b/kustomization.yaml" in issue.message
    assert check(scan({**files, "cm.yaml": manifest("ClusterRole", "admin")})) == ()


def test_a_template_is_told_as_one() -> None:
    """Whoever points at a chart learns that it has to be rendered first."""
    (issue,) = check(scan({"deploy.yaml": "kind: Deployment\nmetadata:\n  name: {{ .Release.Name }}-web\n"}))
    assert issue.kind is IssueKind.INVALID_YAML
    assert "looks like a template" in issue.message
