"""Documents between a task and the processes that open its catalog; they need no engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from iceberg_ops.config.document import Document
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.config.policy import Policy
from iceberg_ops.config.policy_lint import load_policy
from iceberg_ops.errors import OptionError


class Request(Document, frozen=True, kw_only=True):
    """Request the tables of ``catalog`` in the policy file ``policy`` with work on ``schedule`` (None: on demand)."""

    catalog: CatalogConfig
    policy: str
    schedule: str | None = None


class ConnectionTest(Document, frozen=True, kw_only=True):
    """Request to try a catalog, or without one a store by its properties; ``folder``: where a file is written and deleted."""

    catalog: CatalogConfig | None = None
    store: dict[str, str] = {}  # noqa: RUF012 - msgspec copies it
    folder: str | None = None

    @property
    def properties(self) -> dict[str, str]:
        return self.store if self.catalog is None else self.catalog.properties


class ConnectionTestResult(Document, frozen=True, kw_only=True):
    """The answer: whether every step worked, and a line about them."""

    works: bool
    said: str


class StepWork(Document, frozen=True, kw_only=True):
    """One maintenance step of one table, with its effective options."""

    action: str
    label: str
    options: dict[str, str] = {}  # noqa: RUF012 - msgspec copies it
    where: str | None = None
    branch: str = "main"
    lane: str = "auto"


class TableWork(Document, frozen=True, kw_only=True):
    """The verdict for one table: its steps in order, and why these (or none). ``refused``: why no job can name the table; its
    steps then fail with that message."""

    table: str
    steps: list[StepWork] = []  # noqa: RUF012 - msgspec copies it
    reason: str = ""
    refused: str | None = None


def parse_work(value: Any) -> TableWork:
    """The work of one table, from XCom. Raises OptionError if there is none, or if it is from another release."""
    try:
        return msgspec.convert(value, TableWork)
    except msgspec.ValidationError as e:
        raise OptionError(_no_work(str(e))) from None


def parse_table(value: Any) -> str:
    """The table of such work, whatever steps it has. Raises OptionError."""
    table = value.get("table") if isinstance(value, Mapping) else None
    if not isinstance(table, str):
        raise OptionError(_no_work("it names no table"))
    return table


def _no_work(why: str) -> str:
    return (
        f"table_work is not the work of a table: {why}. The XCom of the task that finds the tables is missing, or another release "
        "wrote it: clear that task, so that it runs again"
    )


class DiscoveryAnswer(Document, frozen=True, kw_only=True):
    """A verdict for every table of the catalog."""

    tables: list[TableWork]


class CheckRequest(Document, frozen=True, kw_only=True):
    """Ask whether everything that a table (catalog.namespace.name) refers to exists, parses and adds up."""

    catalog: CatalogConfig
    table: str


class CheckAnswer(Document, frozen=True, kw_only=True):
    """The findings, one line each; readers rely on the absence of ``errors``, not of ``warnings``."""

    looked: str
    errors: list[str] = []  # noqa: RUF012 - msgspec copies it
    warnings: list[str] = []  # noqa: RUF012 - msgspec copies it


def read_policy(path: Path) -> Policy:
    """The policy of a file. Raises OptionError for a file that is wrong or cannot be read."""
    try:
        data = path.read_bytes()
    except OSError as e:
        raise OptionError(f"policy {path}: {e.strerror}") from None
    return load_policy(data, path.name)
