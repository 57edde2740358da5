"""Edits as a careful human would make them: before, desired object, after."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gitwriter.manifests.editing import EditMode, edit_document, equal_as_kubernetes
from gitwriter.manifests.splitting import split_documents

from .changing import HEAD, changed, edited

MENU = """# Owned by the kitchen. Ask before editing.

apiVersion: v1
kind: ConfigMap
metadata:
    name: menu # do not rename
    namespace: shop
    labels: {tier: front}   # flow on purpose

data:
    # per bowl
    price: '4.50' # EUR

    soup: "leek"
"""


def test_comments_blank_lines_and_style_survive_one_change() -> None:
    """Exactly one line differs. Covers L01, pain 22."""
    after = edited(MENU, changed(MENU, ("/data/price", "4.75")))
    assert after == MENU.replace("'4.50'", "'4.75'")


def test_an_empty_value_is_not_an_absent_one() -> None:
    """Pain 10: what an object says by an empty list or map is added, kept and taken away like any value."""
    before = HEAD + "spec:\n  podSelector: {} # all\n  policyTypes:\n    - Egress\n"
    closed = edited(before, changed(before, ("/spec/egress", [])))
    assert closed == before + "  egress: []\n"
    opened = edited(closed, changed(closed, ("/spec/egress", [{}])))
    assert "podSelector: {} # all\n" in opened
    assert edited(opened, changed(opened, ("/spec/egress", []))) == closed
    assert edited(closed, changed(closed, ("/spec/egress", ...))) == before


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_marker_inside_a_value_divides_nothing(newline: str) -> None:
    """Pain 15: a value may hold a whole manifest with its markers; its neighbours stay as they are."""
    value = "a: 1\n---\nb: 2\n...\n--- # c\n%YAML 1.2\n"
    block = "".join(f"    {line}\n" for line in value.splitlines())
    text = (HEAD + f"data:\n  all.yaml: |\n{block}  v: x # one\n---\n" + HEAD + "data: {v: y}\n").replace(
        "\n", newline
    )
    assert len(split_documents(text.encode())) == 2
    once = edited(text, changed(text, ("/data/v", "z")))
    assert once == text.replace("x # one", "z # one")
    other = edited(once, changed(once, ("/data/all.yaml", value.replace("b: 2", "b: 3"))))
    assert other == once.replace("b: 2", "b: 3")
    assert len(split_documents(other.encode())) == 2


def test_added_removed_and_changed_at_once() -> None:
    """The removed key takes its comment along, the new one goes to the end, quotes stay."""
    before = (
        "metadata:\n  name: app # stable\n  labels:\n    app: demo\n"
        "data:\n  # brand\n  color: 'blue' # hex?\n  # obsolete\n  note: x\n"
    )
    desired = changed(before, ("/metadata/labels/tier", "web"), ("/data/color", "green"), ("/data/note", ...))
    assert edited(before, desired) == (
        "metadata:\n  name: app # stable\n  labels:\n    app: demo\n    tier: web\n"
        "data:\n  # brand\n  color: 'green' # hex?\n"
    )


@pytest.mark.parametrize(
    "frame",
    [
        "{}",
        "\ufeff{}",
        "---\n{}",
        "--- # head\n{}",
        "{}...\n",
        "{}\n\n\n",
        "# head\n\n{}# foot\n",
        "%YAML 1.2\n---\n{}",
    ],
)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_framing_survives(frame: str, ending: str) -> None:
    """BOM, markers, comments, blank lines and line endings stay. Covers L03."""
    text = frame.format(HEAD + "data:\n  a: one\t# tab before\n  b: two   \n").replace("\n", ending)
    index = len(split_documents(text.encode())) - 1
    after = edited(text, changed(text, ("/data/a", "uno"), index=index), index=index)
    assert after == text.replace("one", "uno")


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_missing_final_newline_stays_missing(ending: str) -> None:
    """Whether the last line changes, goes, or is followed by a new one. Covers L03, pain 30."""
    text = (HEAD + "data:\n  a: one\n  b: two").replace("\n", ending)
    assert edited(text, changed(text, ("/data/b", "dos"))) == text.replace("two", "dos")
    assert edited(text, changed(text, ("/data/b", ...))) == text.removesuffix(ending + "  b: two")
    assert edited(text, changed(text, ("/data/c", "new"))) == text + ending + "  c: new"


def test_mixed_line_endings_stay_mixed() -> None:
    """A new line takes the ending of the line before it. Covers L03."""
    text = "kind: Thing\r\ndata:\n  a: one\r\n  b: two\n"
    assert edited(text, changed(text, ("/data/a", "uno"))) == text.replace("one", "uno")
    assert edited(text, changed(text, ("/data/c", "x"))) == text + "  c: x\n"


def test_notation_is_not_a_change() -> None:
    """Octal, hexadecimal, underscores, YAML 1.1 booleans and floats that are whole. Covers L05, pain 9."""
    text = HEAD + "spec: {mode: 0644, replicas: 2.0, port: 0x1F90, flag: yes, n: 1_000, cpu: '1'}\nextra: a\n"
    live = {"mode": 420, "replicas": 2, "port": 8080, "flag": True, "n": 1000, "cpu": "1"}
    desired = {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "menu"}, "spec": live, "extra": "a"}
    assert edit_document(text.encode(), 0, desired).mode is EditMode.NO_CHANGE
    assert edited(text, {**desired, "extra": "b"}) == text.replace("extra: a", "extra: b")


def test_a_bare_word_as_key_means_what_the_live_object_says() -> None:
    """Readers disagree on keys such as `on`: whichever reading is live is no change; new text is quoted."""
    text = HEAD + "spec: {on: 1, n: 2}\n"
    desired = {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "menu"}}
    for keys in (("on", "n"), ("true", "false")):
        spec = dict(zip(keys, (1, 2), strict=True))
        assert edit_document(text.encode(), 0, {**desired, "spec": spec}).mode is EditMode.NO_CHANGE
        assert edited(text, {**desired, "spec": {**spec, keys[0]: 5}}) == text.replace("on: 1", "on: 5")
    after = edited(text, {**desired, "spec": {"on": 1, "off": 3}})
    assert after == text.replace("n: 2", '"off": 3')


def test_a_number_where_a_string_should_be() -> None:
    """4.50 and "4.50" differ. Covers L06."""
    text = HEAD + "data:\n  price: 4.50\n"
    assert edited(text, changed(text, ("/data/price", "4.50"))) == HEAD + 'data:\n  price: "4.50"\n'


@pytest.mark.parametrize(
    ("old", "value", "new"),
    [
        ("0o640", 420, "0o644"),
        ("0640", 420, "0644"),
        ("0x1F", 255, "0xFF"),
        ("yes", False, "no"),
        ("True", False, "False"),
        ("ON", False, "OFF"),
        ("5", -3, "-3"),
        ("1.5", 2.5, "2.5"),
        ("plain", "yes", '"yes"'),
        ("plain", "1.2.3", "1.2.3"),
        ("plain", "--flag", "--flag"),
        ("'single'", "it's", "'it''s'"),
        ('"double"', 'say "x"', '"say \\"x\\""'),
        ("'single'", 5, "5"),
        ("null", "text", "text"),
        ("5", None, "null"),
        ("plain", "", '""'),
        ("{a: 1}", "text", "text"),
        ("[1]", {}, "{}"),
        ("*ref", "other", "other"),
        ("!!str 12", 13, "13"),
        ("&own 12", 13, "&own 13"),
    ],
)
def test_a_scalar_keeps_its_spelling_where_it_can(old: str, value: Any, new: str) -> None:
    """Quotes, radix and kind of boolean stay; what the value needs wins."""
    text = HEAD + f"base: &ref anchored\nspec:\n  value:   {old}   # why\n  other: 1\n"
    assert edited(text, changed(text, ("/spec/value", value))) == text.replace(
        f"   {old}   #", f"   {new}   #"
    )


def test_an_empty_value_is_filled() -> None:
    """A key without a value gets one; a comment behind it stays."""
    text = HEAD + "spec:\n  a:\n  b: # later\n  c: {}\n"
    after = edited(text, changed(text, ("/spec/a", 1), ("/spec/b", "x"), ("/spec/c", {"k": "v"})))
    assert after == HEAD + "spec:\n  a: 1\n  b: x # later\n  c:\n    k: v\n"


DEPLOYMENT = """kind: Deployment
metadata: {name: web}
spec:
  containers:
    # main
    - name: web # the site
      image: web:1
      env:
        # where
        - name: A
          value: "1"

        # how
        - name: B
          value: "2"
    # sidecar
    - name: log
      image: log:1
  tolerations:
    - effect: NoSchedule # gpu
      operator: Exists
    - effect: NoExecute # spot
      operator: Exists
"""


def test_comments_travel_with_their_item() -> None:
    """Reordered, removed and inserted items keep their own comments. Covers L11, pain 27."""
    value = changed(DEPLOYMENT)
    containers = value["spec"]["containers"]
    value["spec"]["containers"] = containers[::-1]
    value["spec"]["tolerations"] = value["spec"]["tolerations"][::-1]
    once = edited(DEPLOYMENT, value)
    assert once.index("# sidecar\n    - name: log") < once.index("# main\n    - name: web # the site")
    assert once.index("NoExecute # spot") < once.index("NoSchedule # gpu")
    assert sorted(once.splitlines()) == sorted(DEPLOYMENT.splitlines())
    value["spec"]["containers"] = [containers[0]]
    twice = edited(once, value)
    assert "sidecar" not in twice
    value["spec"]["containers"][0]["env"].insert(0, {"name": "Z", "value": "0"})
    thrice = edited(twice, value)
    assert (
        '      env:\n        - name: Z\n          value: "0"\n        # where\n        - name: A\n' in thrice
    )


def test_blank_lines_between_items_stay_between_items() -> None:
    """A new order exchanges the items; the gaps between them stay where they are."""
    text = HEAD + "list:\n  # one\n  - a\n\n  - b # two\n\n  - c\nmore: 1\n"
    after = edited(text, changed(text, ("/list", ["c", "a", "b"])))
    assert after == HEAD + "list:\n  - c\n\n  # one\n  - a\n\n  - b # two\nmore: 1\n"


def test_lists_within_lists_share_lines_with_their_parent() -> None:
    """The item that follows a removed one moves up to the parent's dash."""
    text = HEAD + "m:\n- - 1\n  - 2 # two\n- - 3\n"
    assert edited(text, changed(text, ("/m/0/0", ...))) == HEAD + "m:\n- - 2 # two\n- - 3\n"
    assert edited(text, changed(text, ("/m/0/2", 9))) == HEAD + "m:\n- - 1\n  - 2 # two\n  - 9\n- - 3\n"


def test_a_moved_item_may_change_too() -> None:
    """Move and change in one edit: the comment stays with the item, the change is made in it."""
    value = changed(DEPLOYMENT)
    value["spec"]["containers"] = value["spec"]["containers"][::-1]
    value["spec"]["containers"][1]["image"] = "web:2"
    after = edited(DEPLOYMENT, value)
    assert "    # main\n    - name: web # the site\n      image: web:2\n" in after


def test_json_stays_json() -> None:
    """One JSON line stays one JSON line; pretty JSON stays pretty. Covers L18."""
    line = '{"kind": "ConfigMap", "metadata": {"name": "menu"}, "data": {"soup": "leek", "x": "1"}}\n'
    after = edited(line, changed(line, ("/data/soup", 'ka"le'), ("/data/é", "y\x01\n"), ("/data/x", ...)))
    assert after.count("\n") == 1
    assert json.loads(after)["data"] == {"soup": 'ka"le', "é": "y\x01\n"}
    pretty = json.dumps(json.loads(line), indent=2) + "\n"
    desired = changed(pretty, ("/data/soup", "kale"), ("/data/list", [{"a": 1}]), ("/data/x", ...))
    after = edited(pretty, desired)
    assert after == json.dumps(desired, indent=2) + "\n"


def test_an_api_version_is_a_line() -> None:
    """Another version of the type is one changed line. Covers L20."""
    text = "apiVersion: autoscaling/v1 # old\nkind: HorizontalPodAutoscaler\nmetadata: {name: a}\n"
    assert edited(text, changed(text, ("/apiVersion", "autoscaling/v2"))) == text.replace("/v1", "/v2")


def test_one_line_inside_a_long_block() -> None:
    """A pinned version, and a line deep in a literal block: one line each. Covers L21."""
    block = "".join(f"      line {n}: value   \n" if n % 7 else "      \n" for n in range(60))
    text = HEAD + f'spec:\n  version: "6.5.0" # pinned\n  values: |\n{block}  last: 1\n'
    once = edited(text, changed(text, ("/spec/version", "6.6.0")))
    assert once == text.replace("6.5.0", "6.6.0")
    values = changed(text)["spec"]["values"].replace("line 33: value", "line 33: other")
    assert edited(text, changed(text, ("/spec/values", values))) == text.replace(
        "line 33: value", "line 33: other"
    )


@pytest.mark.parametrize(
    ("old", "value", "new"),
    [
        ("|\n    a\n    b\n", "a\nc\n", "|\n    a\n    c\n"),
        ("|-\n    a\n    b\n", "a\nb\n", "|\n    a\n    b\n"),
        ("|\n    a\n", "a", "|-\n    a\n"),
        ("|\n    a\n", "a\n\n\n", "|+\n    a\n\n\n"),
        ("|+\n    a\n\n", "a\nb\n\n", "|+\n    a\n    b\n\n"),
        ("| # why\n    a\n", "b\n", "| # why\n    b\n"),
        ("|2\n      x\n    y\n", "  x\nz\n", "|2\n      x\n    z\n"),
        ("|\n    a\n", " a\n", "|2\n     a\n"),
        ("|\n    a\n", "a\r\n", '"a\\r\\n"\n'),
        ("|\n    a\n", 5, "5\n"),
        (">\n    a b\n    c d\n", "a b\nc e\n", ">\n    a b\n\n    c e\n"),
        (">-\n    one two\n    three four\n", "one two three five", ">-\n    one two\n    three five\n"),
        ("one two\n    three four\n", "one six three four", "one six\n    three four\n"),
        ('"one \\\n    two\n    three"\n', "one two four", '"one \\\n    two\n    four"\n'),
        ("'it''s\n    so'\n", "it's not so", "'it''s\n    not so'\n"),
        ("short\n", "a\nb\n", "|\n    a\n    b\n"),
    ],
)
def test_blocks_and_wrapped_text_keep_their_form(old: str, value: Any, new: str) -> None:
    """Indicator, chomping, indentation and line breaks stay as far as the value allows."""
    text = HEAD + "spec:\n  text: {}  next: 1\n"
    before = text.replace("{}", old)
    assert edited(before, changed(before, ("/spec/text", value))) == text.replace("{}", new)


def test_flow_members_come_and_go_on_their_lines() -> None:
    """Trailing commas, comments and brackets stay where they are."""
    text = HEAD + 'args: [\n  "a",  # first\n  "b",\n  "c", # last\n]\nmore: ["-a", \'-b\', c]\n'
    after = edited(text, changed(text, ("/args/1", ...), ("/args/2", "d"), ("/more/3", "yes")))
    assert (
        after == HEAD + 'args: [\n  "a",  # first\n  "c", # last\n  "d",\n]\nmore: ["-a", \'-b\', c, "yes"]\n'
    )


ANCHORS = """kind: Thing
metadata: {name: a}
base: &base
  cpu: 1 # small
  mem: 2
one:
  <<: *base
  own: x
two: *base
three: &port 80
four: *port
"""


def test_a_merged_value_is_overridden_by_an_own_key() -> None:
    """A diverging merged key becomes an own key; the base and its other users stay. Covers L13."""
    after = edited(ANCHORS, changed(ANCHORS, ("/one/cpu", 5)))
    assert after == ANCHORS.replace("  own: x\n", "  own: x\n  cpu: 5\n")


def test_a_diverging_alias_is_written_out_at_its_place_alone() -> None:
    """The anchor keeps its value, the alias becomes a copy with the change."""
    after = edited(ANCHORS, changed(ANCHORS, ("/four", 90), ("/two/cpu", 7)))
    assert after == ANCHORS.replace("four: *port", "four: 90").replace(
        "two: *base", "two:\n  cpu: 7\n  mem: 2"
    )


def test_an_anchored_item_may_become_a_list() -> None:
    """An anchor cannot share its line with the first item of a list: the items go below it."""
    text = HEAD + "list:\n- &a |\n  text\n- b\n"
    after = edited(text, changed(text, ("/list/0", [{"k": "v"}, "x"])))
    assert after == HEAD + "list:\n- &a\n  - k: v\n  - x\n- b\n"


def test_a_change_of_all_users_is_made_at_the_anchor() -> None:
    """One line changes where every user has the new value."""
    desired = changed(ANCHORS, ("/base/cpu", 3), ("/one/cpu", 3), ("/two/cpu", 3))
    assert edited(ANCHORS, desired) == ANCHORS.replace("cpu: 1 #", "cpu: 3 #")


def test_a_dropped_merged_key_drops_the_merge() -> None:
    """What the merge brought in besides is written out."""
    after = edited(ANCHORS, changed(ANCHORS, ("/one/cpu", ...)))
    assert after == ANCHORS.replace("  <<: *base\n  own: x\n", "  own: x\n  mem: 2\n")


def test_when_the_anchor_goes_its_users_are_written_out() -> None:
    """No alias is left without its anchor."""
    after = edited(ANCHORS, changed(ANCHORS, ("/three", ...)))
    assert after == ANCHORS.replace("three: &port 80\n", "").replace("*port", "80")


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ("a: 1\na: 2\n", "twice"),
        ("a: !include x\n", "local tag"),
        ("a: !!binary aGk=\n", "!!binary"),
        ("sops: {mac: x}\na: 1\n", "encrypted"),
        ("a: [1\n", "line 6"),
    ],
)
def test_documents_that_must_not_be_touched(body: str, word: str) -> None:
    """Skipped with a reason that says what can be done, bytes untouched. Covers L13."""
    data = (HEAD + body).encode()
    result = edit_document(data, 0, {"kind": "Thing", "metadata": {"name": "menu"}, "a": 9})
    assert (result.mode, result.data) == (EditMode.SKIPPED, data)
    assert word in (result.diagnostic or "")


def test_an_index_or_identity_that_does_not_fit_is_skipped() -> None:
    """The file changed since the decision: nothing is written."""
    data = HEAD.encode()
    assert edit_document(data, 3, {"kind": "Thing"}).mode is EditMode.SKIPPED
    assert edit_document(data, 0, {"kind": "Other", "metadata": {"name": "menu"}}).mode is EditMode.SKIPPED
    assert edit_document(b"# only a comment\n", 0, {"kind": "Thing"}).mode is EditMode.SKIPPED


def test_an_object_that_yaml_cannot_hold_is_skipped() -> None:
    """Too deep or not a number: nothing is written, the reason is said."""
    deep: Any = "x"
    for _ in range(3000):
        deep = [deep]
    for bad in (deep, float("nan"), b"raw"):
        result = edit_document(HEAD.encode(), 0, {"kind": "Thing", "metadata": {"name": "menu"}, "a": bad})
        assert (result.mode, result.data) == (EditMode.SKIPPED, HEAD.encode())
        assert "cannot be written" in (result.diagnostic or "")


def test_siblings_stay_to_the_byte() -> None:
    """Other documents keep separators, line endings and oddities."""
    text = "kind: A\r\n---  # b\r\nkind: Thing\nx: 1\n--- \n\n  odd:   [1,2 ]\n...\n"
    assert edited(text, changed(text, ("/x", 2), index=1), index=1) == text.replace("x: 1", "x: 2")


def test_hand_added_fields_go() -> None:
    """The API is the truth: a key that it lacks is removed, neighbours' comments stay. Covers L15."""
    text = HEAD + "data:\n  # mine\n  a: 1\n  extra: x # why\n  # other\n  b: 2\n"
    assert (
        edited(text, changed(text, ("/data/extra", ...)))
        == HEAD + "data:\n  # mine\n  a: 1\n  # other\n  b: 2\n"
    )


def test_kept_pointers_stay_as_git_has_them() -> None:
    """Present stays present, absent stays absent, also below list items. Covers pain 47."""
    text = HEAD + "spec:\n  replicas: 3 # by hand\n  hooks:\n  - name: a\n    ca: old\n  - name: b\n"
    desired = changed(text, ("/spec/replicas", 9), ("/spec/hooks/0/ca", "new"), ("/spec/hooks/1/ca", "new"))
    keep = ["/spec/replicas", "/spec/hooks/*/ca", "/metadata/finalizers"]
    desired["metadata"]["finalizers"] = ["x"]
    assert edit_document(text.encode(), 0, desired, keep=keep).mode is EditMode.NO_CHANGE
    desired["spec"]["hooks"] = desired["spec"]["hooks"][::-1]
    after = edited(text, desired, keep=keep)
    assert after.endswith("  hooks:\n  - name: b\n  - name: a\n    ca: old\n")
    del desired["spec"]["replicas"]
    assert "replicas: 3 # by hand" in edited(text, desired, keep=keep)


def test_optional_defaults_are_not_added_but_followed() -> None:
    """A default that Git lacks stays out; one that Git states differently is corrected. Covers pain 45."""
    text = HEAD + "spec:\n  ports:\n  - port: 80\n  - port: 53\n    protocol: UDP\n"
    desired = changed(text, ("/spec/ports/0/protocol", "TCP"), ("/spec/policy", {"type": "x"}))
    optional = ["/spec/ports/0/protocol", "/spec/ports/1/protocol", "/spec/policy/type"]
    assert edit_document(text.encode(), 0, desired, optional=optional).mode is EditMode.NO_CHANGE
    text = text.replace("- port: 80\n", "- port: 80\n    protocol: SCTP\n")
    assert edited(text, desired, optional=optional) == text.replace("SCTP", "TCP")


def test_empty_labels_mean_none() -> None:
    """Empty labels or annotations on either side are no reason to write."""
    text = "kind: Thing\nmetadata: {name: a, annotations: {}}\n"
    desired = {"kind": "Thing", "metadata": {"name": "a", "labels": {}}}
    assert edit_document(text.encode(), 0, desired).mode is EditMode.NO_CHANGE


def test_new_text_follows_its_neighbours() -> None:
    """Indentation, list style, flow style, key order and quotes of new text are those around it."""
    text = (
        "kind: Role\nmetadata:\n    name: a\nrules:\n    - verbs: [get]\n      resources: ['pods']\n"
        "list:\n    - 'x'\n    - 'y'\n"
    )
    after = edited(
        text, changed(text, ("/rules/1", {"resources": ["nodes"], "verbs": ["list"]}), ("/list/2", "z"))
    )
    assert after == text.replace(
        "['pods']\n", "['pods']\n    - verbs: [list]\n      resources: ['nodes']\n"
    ).replace("'y'\n", "'y'\n    - 'z'\n")


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (1, 1.0, True),
        (1, True, False),
        ("1", 1, False),
        (None, "", False),
        (9007199254740993, 9007199254740992, False),
        (9007199254740993, 9007199254740992.0, False),
        (12345678901234567890, 12345678901234567000, True),
        ({"a": [1, {"b": 2.0}]}, {"a": [1.0, {"b": 2}]}, True),
        ({"a": None}, {}, False),
        ([1, 2], [2, 1], False),
    ],
)
def test_equality(left: Any, right: Any, equal: bool) -> None:
    """Numbers by value and exactly within 64 bits, everything else by type and value."""
    assert equal_as_kubernetes(left, right) is equal
    assert equal_as_kubernetes(right, left) is equal
