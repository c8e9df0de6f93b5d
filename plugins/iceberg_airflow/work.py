"""What travels between the discovery of tables and the tasks that maintain them: documents without an engine."""

from __future__ import annotations

from iceberg_ops.config.document import Document
from iceberg_ops.config.job_spec import CatalogConfig


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
    """The verdict for one table: its steps in order, and why these (or none)."""

    table: str
    steps: list[StepWork] = []  # noqa: RUF012
    reason: str = ""


class Answer(Document, frozen=True, kw_only=True):
    """A verdict for every table of the catalog."""

    tables: list[TableWork]
