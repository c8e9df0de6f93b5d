"""What a worker process runs (``worker_processes`` starts it): requests come on standard input, answers go to standard output.

It never imports the program that started it: a program without ``if __name__ == "__main__"`` would do all its work again. It ends
when its parent is gone, which closes its standard input, whatever it is doing then.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import tempfile
import threading
import traceback
from queue import SimpleQueue
from typing import BinaryIO, NoReturn

import pyarrow as pa

from iceberg_ops.config.secrets import hide_in_logs
from iceberg_ops.data.pandas_kept_out import keep_pandas_out


def main(folder: str | None) -> NoReturn:
    """Answer requests until there are no more. ``folder``: where this worker spills; it is removed when the parent is gone."""
    requests, answers = _own_pipes()
    received: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_receive, args=(requests, received, folder), name="parent", daemon=True).start()
    _begin(folder)
    while True:
        answer = _answer(received.get())
        try:
            pickle.dump(answer, answers)
            answers.flush()
        except OSError:
            _end(folder)


def _begin(folder: str | None) -> None:
    """Workers share the CPUs by processes, so each keeps to one. They are processes of our own, which need no pandas."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides: a terminal sends Ctrl-C to workers as well
    tempfile.tempdir = folder
    keep_pandas_out()
    hide_in_logs()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(2)


def _own_pipes() -> tuple[BinaryIO, BinaryIO]:
    """The pipes from and to the parent; what a library prints goes to standard error, and cannot be taken for an answer."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # the parent has no standard error
        os.dup2(nothing, 1)
    return requests, answers


def _receive(requests: BinaryIO, received: SimpleQueue[bytes], folder: str | None) -> None:
    while True:
        try:
            received.put(pickle.load(requests))
        except (EOFError, OSError, pickle.UnpicklingError):
            _end(folder)


def _answer(request: bytes) -> bytes:
    """``(result, None)`` or ``(None, error)``, pickled."""
    try:
        function, item = pickle.loads(request)
        return pickle.dumps((function(item), None))
    except BaseException as e:  # noqa: BLE001 - whatever it is, it is the answer to this request
        e.add_note(traceback.format_exc())
        try:
            return pickle.dumps((None, e))
        except Exception:  # noqa: BLE001 - an error that cannot be sent is described instead
            return pickle.dumps((None, RuntimeError(f"{type(e).__name__}: {e}")))


def _end(folder: str | None) -> NoReturn:
    """At once: nobody waits for an answer any more."""
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)
