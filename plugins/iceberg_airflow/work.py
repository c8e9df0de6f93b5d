"""What travels between a task and the processes that open its catalog: documents without an engine."""

from __future__ import annotations

from pathlib import Path

from iceberg_ops.config.document import Document
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.config.policy import Policy
from iceberg_ops.config.policy_lint import load_policy
from iceberg_ops.errors import OptionError


class Request(Document, frozen=True, kw_only=True):
    """Ask for the tables of ``catalog`` under the policy file ``policy`` with work on ``schedule`` (None: on demand)."""

    catalog: CatalogConfig
    policy: str
    schedule: str | None = None


class StepWork(Document, frozen=True, kw_only=True):
    """One maintenance step of one table, with the options in force."""

    action: str
    label: str
    options: dict[str, str] = {}  # noqa: RUF012
    where: str | None = None
    branch: str = "main"
    lane: str = "auto"


class TableWork(Document, frozen=True, kw_only=True):
    """The verdict for one table: its steps in order, and why these (or none). ``refused``: why no job can name the table; its
    steps then fail with that message."""

    table: str
    steps: list[StepWork] = []  # noqa: RUF012
    reason: str = ""
    refused: str | None = None


class Answer(Document, frozen=True, kw_only=True):
    """A verdict for every table of the catalog."""

    tables: list[TableWork]


class CheckRequest(Document, frozen=True, kw_only=True):
    """Ask whether everything that a table (catalog.namespace.name) refers to exists, parses and adds up."""

    catalog: CatalogConfig
    table: str


class CheckAnswer(Document, frozen=True, kw_only=True):
    """What was found, a line each; ``errors`` are what readers rely on, ``warnings`` are not."""

    looked: str
    errors: list[str] = []  # noqa: RUF012
    warnings: list[str] = []  # noqa: RUF012


def read_policy(path: Path) -> Policy:
    """The policy of a file. Raises OptionError for one that is wrong or cannot be read."""
    try:
        data = path.read_bytes()
    except OSError as e:
        raise OptionError(f"policy {path}: {e.strerror}") from None
    return load_policy(data, path.name)
