"""The spark-submit entry ends with one line, whatever happens."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from iceberg_ops.config.document import to_json
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.errors import CatalogUnavailableError
from spark_jobs import main as entry

PROPERTIES = {"uri": "postgresql://me:geheim1@db/x"}
JOB = JobSpec(job="append", table="lake.a.b", catalog=CatalogConfig(name="lake", type="sql", properties=PROPERTIES))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyError("two\nlines, geheim1"), "error: INTERNAL: KeyError: 'two\\nlines, ***'\n"),
        (CatalogUnavailableError("no login with geheim1"), "error: CATALOG_UNAVAILABLE: no login with ***\n"),
    ],
)
def test_an_error_is_one_line_without_a_secret(
    error: Exception, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor do the job's log lines have one."""

    def failing(_name: str) -> None:
        logging.getLogger("iceberg_ops").warning("the store has no geheim1")
        raise error

    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(entry, "spark_session", failing)
    (tmp_path / "job.json").write_bytes(to_json(JOB))
    assert entry.main(["--job-spec", str(tmp_path / "job.json")]) == 1
    out, err = capsys.readouterr()
    assert err == said
    assert "geheim1" not in out
    assert "WARNING iceberg_ops: the store has no ***" in out
