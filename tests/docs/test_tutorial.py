"""The tutorial works as described: the test runs every block unchanged, and compares every answer."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.docs.markdown import ROOT, blocks

TUTORIAL = ROOT / "docs" / "tutorial.md"


def typed(block: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a block, each with the lines that stand under it; a block without a prompt is one script."""
    if not block.startswith("$ "):
        yield block, []
        return
    command, answer = "", list[str]()
    for line in block.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, answer
            command, answer = line.removeprefix("$ "), []
        else:
            answer.append(line)
    yield command, answer


def pattern(answer: list[str]) -> str:
    """``...`` stands for any lines, ``<id>`` and ``<n>`` for a number."""
    exact = (re.escape(line).replace("<id>", "[0-9]+").replace("<n>", "[0-9]+") + "\n" for line in answer)
    return "".join("(.*\n)*" if line == "..." else text for line, text in zip(answer, exact, strict=True))


def test_every_command_answers_as_the_tutorial_shows(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ICEBERG_OPS_")}
    environment |= {"PATH": f"{Path(sys.executable).parent}:{environment['PATH']}", "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    asked = 0
    for block in blocks(TUTORIAL, ""):
        for command, answer in typed(block):
            done = subprocess.run(
                ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
            )
            said = done.stdout + done.stderr
            assert re.fullmatch(pattern(answer), said), f"{command}\nanswers\n{said}"
            asked += command.startswith("iceberg-ops ")
    assert asked > 10
