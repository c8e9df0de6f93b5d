"""Chooses the lane of a job with lane ``auto``: ``python -m iceberg_airflow.lane_choice JOB_SPEC MASTER ANSWER``.

It is a separate process, because it opens the table to find out how much there is to read. The rule is that of
``iceberg_ops.actions.lanes``, with the Spark connection's master. The answer is a JSON object of ``lane`` and ``reason``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from iceberg_airflow.last_line import run_with_exit_code
from iceberg_ops.actions.lanes import choose_lane
from iceberg_ops.config.document import from_json
from iceberg_ops.config.job_spec import JobSpec


def main(arguments: list[str]) -> int:
    """Exit code 0, or 1 with one line on standard error."""
    spec, master, answer = arguments

    def work() -> None:
        choice = choose_lane(from_json(Path(spec).read_bytes(), JobSpec, spec), master)
        Path(answer).write_text(json.dumps({"lane": choice.lane, "reason": choice.reason}), encoding="utf-8")

    return run_with_exit_code(work)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
