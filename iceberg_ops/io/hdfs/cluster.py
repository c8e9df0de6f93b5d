"""One HDFS (a name service or a mount table), and calls of its client with a time limit.

The client waits for a name node for ever, and blocks Ctrl-C. So each call runs in its own thread, and is abandoned after a time
limit; its outcome is then unknown. The client is discarded with it, because its connection may be dead.

If a name node refuses temporarily (safe mode, standby), or cannot be reached and a second call is safe, the call is repeated. After
about twenty seconds it is a CatalogUnavailableError; if the name node was in safe mode, it is a RefusedForNowError, and so is, at
once, an exceeded quota. A standby's refusal proves nothing: the client may have asked the other name node before, in vain.
"""

from __future__ import annotations

import atexit
import errno
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from hdfs_native import Client

from iceberg_ops.errors import CatalogUnavailableError, IcebergOpsError, OptionError, TerminalError, UnsupportedError
from iceberg_ops.io.file_io import RefusedForNowError
from iceberg_ops.io.forks import HDFS
from iceberg_ops.io.hadoop_settings import HadoopSettings

T = TypeVar("T")

ANSWER_S = "hdfs.answer-timeout-s"
_ANSWER_S = 60.0
_TRIED_FOR_S = 20.0
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 2.0
_REMOTE = re.compile(r'RPCError\("([^"]*)", "(.*)"\)', re.DOTALL)
_LOGIN = ("kerberos-principal", "kerberos-keytab", "kerberos-cache")
_NOT_DONE = frozenset({"SafeModeException", "RetriableException"})
_FOR_NOW = _NOT_DONE | {"StandbyException", "ObserverRetryOnActiveException"}
_NO_ACCESS = frozenset({"AccessControlException", "AuthorizationException"})
_BELOW_A_FILE = "(is not a directory)"
"""How a refusal ends where a part of the path is a file: the name node gives it as one of missing rights."""
_SECURITY = ("SASLError", "GSSAPIError", "NoSASLMechanism", "AuthenticationException", "InvalidToken")


_given_up: list[threading.Thread] = []
_LAST_WAIT_S = 3.0


@atexit.register
def _wait_for_given_up() -> None:
    """When Python exits, a thread that returns from the client at that moment aborts the process. A call whose connection is gone
    returns within this time; a call that still waits for an answer is unlikely to return right after it."""
    until = time.monotonic() + _LAST_WAIT_S
    for thread in _given_up:
        thread.join(max(until - time.monotonic(), 0))


class Cluster:
    """``url``: ``hdfs://authority``. One instance serves all threads."""

    def __init__(self, url: str, settings: HadoopSettings, properties: Mapping[str, str]) -> None:
        self._url, self._settings = url, settings
        self._login = {name.replace("-", "_"): properties.get(f"hdfs.{name}") for name in _LOGIN}
        self._answer_s = _seconds(properties)
        self._client: Client | None = None
        self._lock = threading.Lock()

    def ask(self, call: Callable[[Client], T], location: str) -> T:
        """For calls that may be done twice. Raises FileNotFoundError, FileExistsError and the typed errors."""
        return self._asked(call, location, again=True)

    def do(self, call: Callable[[Client], T], location: str) -> T:
        """For calls that must not be done twice: after a CatalogUnavailableError, but for a RefusedForNowError, the call may have
        been done."""
        return self._asked(call, location, again=False)

    def _asked(self, call: Callable[[Client], T], location: str, *, again: bool) -> T:
        until, wait = time.monotonic() + _TRIED_FOR_S, _FIRST_WAIT_S
        while True:
            try:
                return self._once(call, location)
            except Exception as e:  # noqa: BLE001 - the client has no errors of its own
                error = hdfs_error(e, location)
                hopeless = not isinstance(error, CatalogUnavailableError) or not (again or _is_refusal_for_now(e))
                if hopeless or _is_of_quota(e) or time.monotonic() + wait > until:
                    raise error from None
            time.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT_S)

    def _once(self, call: Callable[[Client], T], location: str) -> T:
        if sys.is_finalizing():
            raise TerminalError(f"{location}: Python ends, and HDFS is not asked any more: a thread would never start")
        client = self._made()
        answer: list[T] = []
        failure: list[BaseException] = []

        def work() -> None:
            try:
                answer.append(call(client))
            except BaseException as e:  # noqa: BLE001 - raised below
                failure.append(e)

        thread = threading.Thread(target=work, name="hdfs", daemon=True)
        thread.start()
        try:
            thread.join(self._answer_s)
        finally:
            if thread.is_alive():
                _given_up.append(thread)
        if answer:
            return answer[0]
        if not failure:
            with self._lock:
                self._client = None if self._client is client else self._client
            raise _NoAnswer(f"{location}: {self._url} gave no answer in {self._answer_s:g} seconds")
        if isinstance(failure[0], Exception):
            raise failure[0]
        raise TerminalError(f"{location}: the client of HDFS failed: {_line(str(failure[0]))}")

    def _made(self) -> Client:
        HDFS.use()
        with self._lock:
            if self._client is None:
                try:
                    self._client = Client(self._url, self._settings.of_client(), self._settings.conf_dir, **self._login)
                except (RuntimeError, ValueError, OSError) as e:
                    raise OptionError(
                        f"{self._url}: the client of HDFS refuses the address or the settings ({_line(str(e))}): correct them in "
                        f"the catalog's properties, or in HADOOP_CONF_DIR ({self._settings.conf_dir or 'not set'})"
                    ) from None
            return self._client


class _NoAnswer(CatalogUnavailableError):
    """The call was given up."""


def hdfs_error(error: Exception, location: str) -> Exception:
    """This package's error for an error of the client."""
    if isinstance(error, IcebergOpsError):
        return error
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, "no such file", location)
    if isinstance(error, FileExistsError):
        return FileExistsError(errno.EEXIST, "file exists", location)
    text = str(error)
    kind, detail = _remote(error)
    if kind == "AccessControlException" and detail.endswith(_BELOW_A_FILE):
        return FileNotFoundError(errno.ENOENT, "no such file", location)
    if kind in _NO_ACCESS or isinstance(error, PermissionError):
        return TerminalError(f"{location}: HDFS refuses access ({detail}): give the user of this process the right that is missing")
    if any(word in text for word in _SECURITY):
        return TerminalError(
            f"{location}: HDFS does not accept the client's identity ({detail}): check the Kerberos ticket, or "
            "hdfs.kerberos-principal and hdfs.kerberos-keytab"
        )
    if kind == "InvalidPathException":
        return UnsupportedError(f"not supported: location {location} in HDFS, because it has no such names ({detail})")
    if kind == "ParentNotDirectoryException":
        return NotADirectoryError(errno.ENOTDIR, "a part of the path is a file", location)
    if kind.endswith("PathComponentTooLongException") or "Pathname too long" in detail:
        return OSError(errno.ENAMETOOLONG, "file name too long", location)
    if kind in ("PathIsNotEmptyDirectoryException", "PathIsDirectoryException") or isinstance(error, IsADirectoryError):
        return IsADirectoryError(errno.EISDIR, "is a folder", location)
    if isinstance(error, NotImplementedError):
        return UnsupportedError(f"not supported: {location}, because the client of HDFS does not support it ({detail})")
    if _is_of_quota(error):
        return RefusedForNowError(
            f"{location}: HDFS refuses it, because a quota would be exceeded ({detail}): raise the quota (hdfs dfsadmin -setQuota, "
            "-setSpaceQuota), or expire snapshots and remove orphan files, then run the job again"
        )
    unavailable = RefusedForNowError if kind in _NOT_DONE else CatalogUnavailableError
    return unavailable(f"{location}: HDFS gives no answer, or refuses for now ({detail})")


def _is_of_quota(error: Exception) -> bool:
    return _remote(error)[0].endswith("QuotaExceededException")


def _is_refusal_for_now(error: Exception) -> bool:
    return _remote(error)[0] in _FOR_NOW


def _remote(error: Exception) -> tuple[str, str]:
    """The last part of the name of the name node's exception, and its message; empty for another error."""
    if (m := _REMOTE.search(str(error))) is None:
        return "", _line(str(error))
    return re.split(r"[.$]", m[1])[-1], _line(m[2])


def _line(text: str) -> str:
    """The first line, without the stack that follows."""
    return re.split(r"\\n|\n", text, maxsplit=1)[0][:300].strip() or "no reason given"


def _seconds(properties: Mapping[str, str]) -> float:
    text = properties.get(ANSWER_S)
    if text is None:
        return _ANSWER_S
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise OptionError(f"property {ANSWER_S} {text!r}: must be a whole number of seconds")
    return float(text)
