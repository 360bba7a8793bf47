"""What the README says is what happens: its Python runs, its commands exist, its table is the demo's."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from prometheus_client import CollectorRegistry

from turnlens.dashboard.commands import turnlens
from turnlens.tracing import Recorder
from turnlens.tracing import recorder as recorder_module

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_its_python_runs_and_gives_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    monkeypatch.setattr(recorder_module, "Metrics", lambda *args: _metrics(*args[:2]))
    hashes = [n.to_bytes(32, "big") for n in range(68)]
    scope: dict[str, object] = {"request": SimpleNamespace(block_hashes=hashes), "old_hashes": [b"old"]}
    exec(compile(code, "README.md", "exec"), scope)
    turn, recorder = scope["turn"], scope["recorder"]
    assert isinstance(recorder, Recorder)
    found = turn.attribution(5)  # type: ignore[attr-defined]
    assert (found.hit, found.restored, found.computed, found.complete) == (256, 768, 76, True)
    assert "hit 256, restored 768, computed 76" in code
    recorder.close()


def _metrics(engine: str, replica: str) -> object:
    from turnlens.tracing.metrics import Metrics

    return Metrics(engine, replica, CollectorRegistry())


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/vllm.md",
        "docs/collector.md",
        "docs/dashboard.md",
        "docs/whatif.md",
        "docs/scenarios.md",
        "docs/replay.md",
        "docs/importing.md",
        "docs/instrument.md",
        "docs/questions.md",
        "docs/questions-slots.md",
        "docs/questions-compare.md",
        "docs/questions-health.md",
        "docs/questions-histories.md",
        "docs/sql.md",
    ],
)
def test_its_commands_exist(page: str) -> None:
    text = (ROOT / page).read_text()
    verbs = set(re.findall(r"^\$? ?(?:.*[ /])?turnlens ([a-z]+)(?: |$)", text, re.MULTILINE))
    known = set(turnlens.commands)
    assert verbs <= known, verbs - known


def test_its_links_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_its_table_is_the_demos(tmp_path: Path) -> None:
    done = CliRunner().invoke(turnlens, ["demo", "--store", str(tmp_path / "d.duckdb"), "--format", "json"])
    assert done.exit_code == 0, done.output
    shown = json.loads(done.stdout)
    turns = {row["turn"]: row for row in shown["turns"]}
    rows = re.findall(
        r"^(c\d\d-t\d\d)  (\S+) +([\d,]+) +([\d,]+) +([\d,]+) +([\d,]+) +([\d,]+) +[\d.]+  (\w+) +(\S+)$", README, re.MULTILINE
    )
    assert len(rows) >= 5
    for turn, conversation, *counts, verdict, cause in rows:
        row = turns[turn]
        assert (row["conversation"], row["verdict"], row["main_cause"]) == (conversation, verdict, cause)
        assert [row[name] for name in ("prompt", "hit", "restored", "recomputed", "new")] == [
            int(n.replace(",", "")) for n in counts
        ]
    chosen = shown["explained"]["turn"]
    assert f"$ turnlens explain {chosen['turn_id']} --store turnlens-demo.duckdb" in README
    assert f"recomputed{chosen['recomputed_tokens']:>12,}" in README


def test_it_quotes_the_measurements_that_were_made() -> None:
    rows = [line for line in (ROOT / "benchmarks" / "RESULTS.md").read_text().splitlines() if line.startswith("|")]
    quoted = [line for line in README.splitlines() if line.startswith("| ") and line in rows]
    assert len(quoted) >= 15
    # A table that is quoted in part says so in its last column: what has a goal is quoted, and what costs the engine.
    assert [row for row in rows if "| goal |" in row or "| one SDK span" in row or "| tuple" in row if row not in quoted] == []
