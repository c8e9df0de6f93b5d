"""A name node that takes calls and never answers."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from iceberg_ops.errors import CatalogUnavailableError
from iceberg_ops.io.load import load_file_io
from tests.io.test_hdfs import as_user
from tests.servers.process import LOOPBACK


@pytest.fixture
def silent() -> Iterator[str]:
    """A name node that takes a call and says nothing."""
    with socket.create_server((LOOPBACK, 0)) as server:
        yield f"hdfs://{LOOPBACK}:{server.getsockname()[1]}"


def test_a_name_node_that_says_nothing_is_given_up(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iceberg_ops.io.hdfs.cluster._TRIED_FOR_S", 0)
    io = load_file_io({"hdfs.answer-timeout-s": "1"})
    with pytest.raises(CatalogUnavailableError, match=r"hdfs://.* gave no answer in 1 seconds"):
        io.exists(f"{silent}/f")
    (failure,) = io.delete_many([f"{silent}/f"])
    assert "gave no answer" in failure.reason


def test_a_call_without_answer_is_interrupted_and_the_process_ends_well(silent: str) -> None:
    """Although the call returns while Python ends."""
    program = """
        import os, signal, threading
        threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            load_file_io().exists(sys.argv[1])
        except KeyboardInterrupt:
            print("interrupted")
    """
    assert as_user("root", program, f"{silent}/f") == "interrupted"
