"""Who may import whom: tracing and queries neither each other nor the rest; collectors both; dashboard everything."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ALLOWED = {
    "tracing": {"tracing"},
    "queries": {"queries"},
    "collectors": {"collectors", "tracing", "queries"},
    "dashboard": {"dashboard", "queries", "collectors", "tracing"},
}


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add(node.module or "")
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("package", ALLOWED)
def test_imports(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    for path in files:
        ours = {name.split(".")[1] for name in imported(path) if name.startswith("turnlens.")}
        assert ours <= ALLOWED[package], path


def test_the_reference_engine_uses_only_the_public_face() -> None:
    for path in (ROOT / "tracing/engines/reference").rglob("*.py"):
        inner = {
            name
            for name in imported(path)
            if name.startswith("turnlens.tracing.") and not name.startswith("turnlens.tracing.engines.reference")
        }
        assert inner <= {
            f"turnlens.tracing.{name}" for name in ("Recorder", "Turn", "Lease", "Publish", "Attribution", "engines")
        }, path
