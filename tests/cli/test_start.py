"""The script, before the command line is there."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

_PROGRAM = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, *_):
        if name == {at!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv = ["iceberg-ops", "--version"]
{before}
from iceberg_ops.cli.start import main
main()
"""


def started(at: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """Ctrl-C comes as the module ``at`` is looked for."""
    program = _PROGRAM.format(at=at, before=before)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_a_ctrl_c_while_the_command_line_is_imported_is_told_in_one_line() -> None:
    for at in ("iceberg_ops.cli.main", "click", "iceberg_ops.errors"):
        ended = started(at)
        assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "error: INTERRUPTED: stopped by the user\n"), at


def test_a_ctrl_c_that_is_to_be_ignored_is_ignored() -> None:
    ended = started("iceberg_ops.cli.main", "signal.signal(signal.SIGINT, signal.SIG_IGN)")
    assert (ended.returncode, ended.stdout.startswith("iceberg-ops"), ended.stderr) == (0, True, "")


def test_the_script_is_this_one() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["scripts"]["iceberg-ops"] == "iceberg_ops.cli.start:main"


def test_the_command_line_gets_the_signal_as_it_was() -> None:
    ended = started("nothing", "import atexit; atexit.register(lambda: print(signal.getsignal(signal.SIGINT).__name__))")
    assert (ended.returncode, ended.stdout.splitlines()[-1]) == (0, "default_int_handler")
