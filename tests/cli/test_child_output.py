"""The output of a child is read until the child has ended."""

from __future__ import annotations

import fcntl
import os
import sys
import threading

import pytest

from iceberg_ops.cli.child_output import output_until


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux makes pipes larger")
def test_all_that_a_large_pipe_holds_is_read_after_the_child_ended() -> None:
    """64 KiB were: the line that says why the job failed, at the end, was lost."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 1 << 20)
    written = b"x" * 900_000 + b"\nerror: CODE: the reason\n"
    os.write(writer, written)
    over = threading.Event()
    over.set()
    try:
        assert output_until(over, reader).read() == written
    finally:
        os.close(reader)
        os.close(writer)
