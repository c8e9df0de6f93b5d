"""Prints at the end of a run what its seeds drew, and fails a long run that never drew something."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.torture.counted import ENOUGH, added_up, lines, missing
from tests.torture.test_interleaved_steps import SEEDS


def _total(reporter: Any) -> str:
    reports = [r for outcome in ("passed", "failed") for r in reporter.stats.get(outcome, ())]
    return added_up(json.loads(value) for r in reports for name, value in r.user_properties if name == "torture")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    total = _total(terminalreporter)
    if json.loads(total):
        terminalreporter.section("what the torture drew")
        for line in [*lines(total), f"never drawn: {', '.join(missing(total)) or 'nothing'}"]:
            terminalreporter.write_line(line)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(session.config, "workerinput") or SEEDS < ENOUGH:
        return
    total = _total(reporter)
    if "worlds" in json.loads(total) and missing(total) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
