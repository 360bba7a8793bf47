"""The built wheel, installed in empty environments and driven as a user would."""

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.wheel


def call(*command: str | Path, cwd: Path, expect: int = 0) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TURNLENS", "OTEL"))}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == expect, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    call(sys.executable, "-m", "build", "--outdir", out, ROOT, cwd=out)
    (built,) = out.glob("*.whl")
    return built


def environment(path: Path, what: str) -> Path:
    call(sys.executable, "-m", "venv", path, cwd=path.parent)
    call(path / "bin/python", "-m", "pip", "install", "--quiet", "--upgrade", "pip", cwd=path)
    call(path / "bin/python", "-m", "pip", "install", "--quiet", what, cwd=path)
    return path / "bin"


def test_everything_that_runs_is_in_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
        (declared,) = [name for name in packed if name.endswith(".dist-info/entry_points.txt")]
        entry_points = archive.read(declared).decode()
    assert "[vllm.general_plugins]\nturnlens = turnlens.tracing.engines.vllm:register" in entry_points
    assert "[console_scripts]\nturnlens = turnlens.dashboard.cli:main" in entry_points
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    kinds = (".py", ".sql", "/_order", "/py.typed")
    wanted = {
        f"turnlens/{name}"
        for name in tracked
        if name.split("/")[0] in ("tracing", "collectors", "queries", "dashboard") and name.endswith(kinds)
    }
    assert wanted
    assert wanted <= packed
    assert {name.split("/")[0] for name in packed if ".dist-info" not in name} == {"turnlens"}
    (source,) = wheel.parent.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        assert any(name.endswith("/queries/views/turns.sql") for name in archive.getnames())


def test_the_engines_side_alone(wheel: Path, tmp_path: Path) -> None:
    bin_folder = environment(tmp_path / "engine", str(wheel))
    code = "import turnlens.tracing as t; r = t.Recorder(engine='x', exporter=None, gauge_exporter=None); print(r.close())"
    assert "True" in call(bin_folder / "python", "-c", code, cwd=tmp_path)
    said = call(bin_folder / "turnlens", "turns", cwd=tmp_path, expect=2)
    assert 'pip install "turnlens[dashboard]"' in said
    installed = {
        row["name"] for row in json.loads(call(bin_folder / "pip", "list", "--format", "json", cwd=tmp_path).splitlines()[0])
    }
    assert not installed & {"duckdb", "streamlit", "plotly", "pandas", "pyarrow"}


def test_the_whole(wheel: Path, tmp_path: Path) -> None:
    bin_folder = environment(tmp_path / "whole", f"{wheel}[all]")
    said = call(bin_folder / "turnlens", "demo", cwd=tmp_path)
    assert "Why not a hit" in said
    rows = json.loads(
        call(
            bin_folder / "turnlens",
            "sql",
            "select count(*) as n from turns",
            "--store",
            "turnlens-demo.duckdb",
            "--format",
            "json",
            cwd=tmp_path,
        )
    )
    assert rows[0]["n"] > 100
