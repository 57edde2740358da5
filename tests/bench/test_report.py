"""What a run of the benchmarks says: each bar with its verdict, and an exit code that can be relied on."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.bench import __main__ as bench
from tests.bench.options import Options
from tests.bench.report import Figure, Report, percentile


@pytest.mark.parametrize(
    ("figure", "verdict"),
    [
        (Figure("a", 1.2, "x", bar=1.2), "PASS"),
        (Figure("a", 1.21, "x", bar=1.2), "MISS"),
        (Figure("a", 200.0, "1/s", bar=200.0, at_least=True), "PASS"),
        (Figure("a", 199.0, "1/s", bar=200.0, at_least=True), "MISS"),
        (Figure("a", 5.0, "s"), ""),
    ],
)
def test_verdict(figure: Figure, verdict: str) -> None:
    """A bar is met at itself; without a bar there is no verdict."""
    assert figure.verdict == verdict


def test_percentile() -> None:
    """The least value that so many do not exceed; of few values the highest share is the greatest."""
    values = [float(number) for number in range(1, 101)]
    assert (percentile(values, 0.5), percentile(values, 0.99)) == (50.0, 99.0)
    assert percentile([3.0, 1.0, 2.0], 0.99) == 3.0


def _section(monkeypatch: pytest.MonkeyPatch, name: str, value: float) -> None:
    """A section that measures this against a bar of 1; one that breaks off where it is negative."""

    def run(report: Report, folder: Path, options: Options) -> None:
        assert folder.is_dir()
        assert options.objects == 7
        if value < 0:
            raise TimeoutError("the cluster did not start")
        report.add(f"{name} / floor", value, "x", bar=1.0)

    module = ModuleType(f"tests.bench.{name}")
    module.__dict__["run"] = run
    monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.parametrize(
    ("values", "code"), [((0.5, 1.0), 0), ((0.5, 1.1), 1), ((-1.0, 0.5), 1)], ids=["met", "missed", "broken"]
)
def test_exit_code(
    values: tuple[float, float],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """0 only where every bar is met and every section came to its end; one that breaks off does not keep the
    next from being measured, and the JSON holds what the table does.
    """
    monkeypatch.setattr("tests.bench.__main__.signal.signal", lambda *_: None)
    monkeypatch.setenv("REVERSER_STATE_DIR", str(tmp_path))  # which main sets where nobody did
    for name, value in zip(("micro", "audit"), values, strict=True):
        _section(monkeypatch, name, value)
    out = tmp_path / "build" / "bench.json"
    assert bench.main(["micro", "audit", "--objects", "7", "--json", str(out)]) == code
    document, told = json.loads(out.read_bytes()), capsys.readouterr().out
    assert document["passed"] == (code == 0)
    assert set(document["seconds"]) == {"micro", "audit"}
    verdicts = {figure["name"]: figure["verdict"] for figure in document["figures"]}
    assert verdicts["audit / floor"] == ("PASS" if values[1] <= 1 else "MISS")
    assert document["broken"] == (
        {} if values[0] >= 0 else {"micro": "TimeoutError: the cluster did not start"}
    )
    assert f"of {len(verdicts)} bars are met" in told
    assert "broke off" in told or values[0] >= 0


def test_unknown_section() -> None:
    """It is told before anything is measured."""
    with pytest.raises(SystemExit) as raised:
        bench.main(["mikro"])
    assert raised.value.code == 2
