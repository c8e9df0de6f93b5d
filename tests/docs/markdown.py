"""Reading our own Markdown: fenced blocks, sections, tables, links and command lines."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"])
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
_COMMAND = re.compile(r"^(?:\$ )?(?:\.venv/bin/)?iceberg-ops +(.*)$")
_SHELL = re.compile(r"(?:^|\s)(?:\||>|2>|&&).*$")


class Command(NamedTuple):
    """A command line of a page; ``whole`` is False for one in running text, which may leave arguments out; ``refused``: the page
    shows the error it ends with."""

    page: str
    text: str
    arguments: tuple[str, ...]
    whole: bool
    refused: bool = False


def blocks(page: Path, language: str | None = None) -> list[str]:
    """Contents of fenced blocks, of one language where it is given."""
    return [body for kind, body in _FENCE.findall(page.read_text()) if language is None or kind == language]


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return _FENCE.sub("", page.read_text())


def section(page: Path, heading: str) -> str:
    """From a heading of any level to the next one of its own level or above."""
    found = re.search(rf"^(#+) {re.escape(heading)}$", page.read_text(), re.MULTILINE)
    assert found, f"{page.name} has no section {heading!r}"
    rest = page.read_text()[found.end() :]
    end = re.search(rf"^#{{1,{len(found[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def rows(text: str) -> list[list[str]]:
    """Cells of all table rows, those of headers and rules left out."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def headings(page: Path) -> list[str]:
    return _HEADING.findall(_FENCE.sub("", page.read_text()))


def anchors(page: Path) -> set[str]:
    """The names that links may point to, made as GitHub makes them."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings(page)}


def links(page: Path) -> list[str]:
    """Targets of relative links."""
    return [target for target in _LINK.findall(prose(page)) if not re.match(r"[a-z]+:", target)]


def commands() -> Iterator[Command]:
    """Every ``iceberg-ops ...`` line of a block, and every such span in running text."""
    for page in PAGES:
        for block in blocks(page):
            lines = block.splitlines()
            for line, following in zip(lines, [*lines[1:], ""], strict=True):
                if found := _COMMAND.match(line.strip()):
                    yield _command(page, found[1], whole=True)._replace(refused=following.startswith("error: "))
        for span in re.findall(r"`(iceberg-ops [^`]+)`", prose(page)):
            yield _command(page, span.removeprefix("iceberg-ops "), whole=False)


def _command(page: Path, text: str, *, whole: bool) -> Command:
    words = shlex.split(_SHELL.sub("", text.replace(r"\|", "|")) if " | " in text else text, comments=True)
    return Command(page.name, text, tuple(words), whole)
