"""The same templates through Go's own text/template (inside kubectl) and through ours."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from gitwriter.messages.evaluate import evaluate
from gitwriter.messages.printing import Record
from gitwriter.messages.syntax import parse
from tests import needs

DATA = {"CREATE": "one", "UPDATE": "two words", "x": 'quo"te\té', "empty": ""}
SNIPPETS = [
    "{{.metadata.name}}",
    "a {{- .metadata.name -}} b",
    "a\n  {{- /* note */ -}}\n b",
    "{{/* note */}}|{{- 3 }}|{{3 -}}  |",
    "{{range $k, $v := .data}}{{$k}}={{$v}};{{end}}",
    "{{range .data}}<{{.}}>{{else}}none{{end}}",
    "{{range $v := .data}}<{{$v}}>{{end}}",
    "{{with .data}}{{.CREATE}}{{$.metadata.name}}{{end}}",
    "{{with .data.empty}}yes{{else}}no{{end}}",
    "{{if .data.empty}}a{{else if .data.x}}b{{else}}c{{end}}",
    '{{$v := .metadata.name}}{{if true}}{{$v = "set"}}{{$w := $v}}{{$w}}{{end}}{{$v}}',
    "{{.data}}",
    "{{len .data}} {{len .data.x}} {{len .metadata.name}}",
    '{{index .data "UPDATE"}}{{index .data.CREATE 0}}',
    '{{eq .metadata.name "a" "demo"}} {{ne 1 2}} {{eq true true}}',
    '{{lt 1 2}}{{le 2 2}}{{gt "b" "a"}}{{ge 1 2}} {{lt "é" "z"}}',
    '{{and 1 0 2}} {{or 0 "" "x"}} {{and 1 2}} {{or 0 ""}}| {{not 0}} {{not .data}}',
    '{{print 1 2 "a" "b" 3 true}}|{{print "a" 1 "b"}}|{{print}}',
    '{{println "a" 1 2}}|{{println}}',
    '{{printf "%s|%5s|%-5s|%05d|%5d|%-5d|%%" "ab" "ab" "ab" 42 42 42}}',
    '{{printf "%q %v %d %s" "a\\"b\\n" true 7 "é"}}',
    '{{printf "%d %s %q" "str" 5 65}}',
    '{{printf "%s" }} {{printf "x" 1 "a"}}',
    '{{printf "%v %s" .data .data}}',
    '{{printf "%q" .data}} {{printf "%4s" .data.CREATE}} {{printf "%-6v|" true}}',
    '{{printf "%05d %-05d|%03s" -42 -42 "a"}}',
    '{{.metadata.name | printf "%s-%s" "x"}} {{"a" | len | eq 1}}',
    '{{(index .data "CREATE") | printf "%q"}} {{(print 1 2) | len}}',
    '{{`raw \\n`}} {{"tab\\t\\x41\\u00e9"}}',
    "{{0x1F}} {{017}} {{-5}} {{+5}} {{0b101}}",
    "{{if eq 1 1}}{{if and (eq 1 1) (ne 1 2)}}deep{{end}}{{end}}",
    '{{ true }} {{false}} {{ "" }}|',
    "{{range $i, $c := .list}}{{end}}x",
]


def test_output_equals_that_of_go(tmp_path: Path) -> None:
    """M3: each construct of the subset behaves as in Go."""
    bodies = [f"{{{{if true}}}}{snippet}{{{{end}}}}" for snippet in SNIPPETS]
    done = subprocess.run(
        [
            needs.kubectl(),
            "create",
            "configmap",
            "demo",
            "--dry-run=client",
            "-o",
            "go-template=" + "\x1e".join(bodies),
            *(f"--from-literal={key}={value}" for key, value in DATA.items()),
        ],
        capture_output=True,
        check=True,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KUBECONFIG": "/dev/null"},
    )
    expected = done.stdout.decode().split("\x1e")
    root = Record({"metadata": {"name": "demo"}, "data": DATA, "list": []})
    actual = [evaluate(parse(body), root) for body in bodies]
    assert dict(zip(SNIPPETS, actual, strict=True)) == dict(zip(SNIPPETS, expected, strict=True))
