"""The ``iceberg-ops`` script. A Ctrl-C during the import of the command line also ends it in one line: nothing has been done
yet."""

from __future__ import annotations

import os
import signal

from iceberg_ops.cli.exit_codes import STOPPED

_STOPPED = b"error: INTERRUPTED: stopped by the user\n"


def main() -> None:
    """Import the command line, and run it."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:  # nohup, and what a shell starts in the background
        signal.signal(signal.SIGINT, _stop)
    from iceberg_ops.cli.main import main as command_line

    signal.signal(signal.SIGINT, before)
    command_line()


def _stop(*_: object) -> None:
    os.write(2, _STOPPED)
    os._exit(STOPPED)
