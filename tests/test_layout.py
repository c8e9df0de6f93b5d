"""The layout that ARCHITECTURE promises: layers hold, files stay short, names describe their content."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted(
    p for top in ("iceberg_ops", "spark_jobs", "plugins", "dags", "demo", "benchmarks") for p in (ROOT / top).rglob("*.py")
)
TESTS = sorted((ROOT / "tests").rglob("*.py"))
LONGEST = 500
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc", "tools"}


@pytest.mark.parametrize("path", SOURCES + TESTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_file_is_longer_than_500_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LONGEST


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_module_says_what_it_is_for_and_has_a_telling_name(path: Path) -> None:
    assert path.stem not in VAGUE
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring, f"{path} opens without a docstring"
    assert len(docstring.split()) > 2, f"{path} opens without a docstring that says something"


def test_committed_files_name_no_registry_and_no_machine() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    banned = [
        "pypi" + ".org",
        "files.python" + "hosted",
        "repo1." + "maven",
        "repo." + "maven",
        "registry." + "npmjs",
        "/wo" + "rk/",
        "/fa" + "rm/",
    ]
    found = [
        f"{name}: {word}"
        for name in filter(None, listed.split("\0"))
        if (ROOT / name).is_file()
        for word in banned
        if word in (ROOT / name).read_text(errors="ignore")
    ]
    assert found == []


def test_the_layers_hold() -> None:
    run = subprocess.run(["lint-imports", "--no-cache"], cwd=ROOT, capture_output=True, text=True, env=_environment(), check=False)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]


def _environment() -> dict[str, str]:

    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'plugins'}", "PATH": path}
