"""The deployment's files, parsed once, without Docker."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
VARIABLE = re.compile(r"(?<!\$)\$\{(?P<name>[A-Z][A-Z0-9_]*)(?P<rest>[^}]*)\}")


def compose_text() -> str:
    return (ROOT / "docker-compose.yml").read_text()


def compose() -> dict[str, Any]:
    """The compose file with anchors and merges resolved."""
    return dict(yaml.safe_load(compose_text()))


def services() -> dict[str, dict[str, Any]]:
    return dict(compose()["services"])


def example_variables() -> dict[str, str]:
    """Variables of .env.example."""
    lines = (ROOT / ".env.example").read_text().splitlines()
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    return {name: value for name, _, value in pairs}


def constraints() -> dict[str, str]:
    """Package -> exact version."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if "==" in line)


def dockerfile() -> str:
    return (ROOT / "Dockerfile").read_text()


def spark_defaults() -> dict[str, str]:
    """Spark's settings in the image."""
    lines = (ROOT / "docker" / "spark-defaults.conf").read_text().splitlines()
    pairs = [line.split(None, 1) for line in lines if line and not line.startswith("#")]
    return {name: value.strip() for name, value in pairs}


def substituted(text: str) -> str:
    """Compose's variable substitution with the values of .env.example."""
    values = example_variables()

    def value(found: re.Match[str]) -> str:
        default = found["rest"].removeprefix(":-") if found["rest"].startswith(":-") else ""
        return values.get(found["name"], default)

    return VARIABLE.sub(value, text).replace("$$", "$")
