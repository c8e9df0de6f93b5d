"""The main program of a worker process (``worker_processes`` starts it): it exchanges frames on two separate pipes.

It does not use standard input and output for them: a Python may print a line before its first statement (``sitecustomize``, a
``.pth`` file), and libraries print later. The worker never imports the program that started it: a program without
``if __name__ == "__main__"`` would do all its work again. The worker ends when its parent is gone: the pipe of the requests
is closed then, and a thread waits for that.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import tempfile
import threading
import traceback
from io import FileIO
from queue import SimpleQueue
from typing import NoReturn

import pyarrow as pa

from iceberg_ops.actions.workers.worker_frames import NoMemoryForFrameError, receive, send
from iceberg_ops.config.secrets import hide_in_logs
from iceberg_ops.data.arrow.pandas_kept_out import keep_pandas_out

_NO_ANSWER = 1
"""Exit code of a worker that cannot answer. The parent, still alive, drops the item; other workers still spill into the folder."""


def main(requests_fd: int, answers_fd: int, folder: str | None) -> NoReturn:
    """Answer requests until there are no more. ``requests_fd`` and ``answers_fd``: the pipes from and to the parent. ``folder``:
    the spill folder of this worker; it is removed when the parent is gone."""
    requests, answers = _pipe(requests_fd, "rb"), _pipe(answers_fd, "wb")
    received: SimpleQueue[bytearray | NoMemoryForFrameError] = SimpleQueue()
    threading.Thread(target=_receive, args=(requests, received, folder), name="parent", daemon=True).start()
    _begin(folder)
    while True:
        try:
            send(answers, _answer(received.get()))
        except OSError:
            _end(folder)
        except BaseException:  # noqa: BLE001 - no memory for an answer
            os._exit(_NO_ANSWER)


def _begin(folder: str | None) -> None:
    """Workers share the CPUs by processes, so each uses one. They are separate processes, which need no pandas."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides: a terminal sends Ctrl-C to workers as well
    tempfile.tempdir = folder
    keep_pandas_out()
    hide_in_logs()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(2)


def _pipe(fd: int, mode: str) -> FileIO:
    """Child processes of a work do not inherit it: they could outlive this worker, and hide its end."""
    os.set_inheritable(fd, False)
    return FileIO(fd, mode)


def _receive(requests: FileIO, received: SimpleQueue[bytearray | NoMemoryForFrameError], folder: str | None) -> None:
    while True:
        try:
            received.put(receive(requests))
        except NoMemoryForFrameError as e:
            received.put(e)
        except (EOFError, OSError):
            _end(folder)
        except BaseException:  # noqa: BLE001 - no memory to receive with
            os._exit(_NO_ANSWER)


def _answer(request: bytearray | NoMemoryForFrameError) -> bytes:
    """``(result, None)`` or ``(None, error)``, pickled."""
    try:
        if isinstance(request, NoMemoryForFrameError):
            raise MemoryError(f"a worker process did not receive its work: {request}")
        function, item = pickle.loads(request)
        return pickle.dumps((function(item), None))
    except BaseException as e:  # noqa: BLE001 - every exception is the answer to this request
        e.add_note(traceback.format_exc())
        try:
            sent = pickle.dumps((None, e))
            pickle.loads(sent)
        except Exception:  # noqa: BLE001 - an error that cannot be sent, or read there, is described instead
            return pickle.dumps((None, RuntimeError(f"{type(e).__name__}: {e}")))
        return sent


def _end(folder: str | None) -> NoReturn:
    """End at once: nobody waits for an answer."""
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)
