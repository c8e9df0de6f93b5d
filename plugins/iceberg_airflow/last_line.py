"""How processes that open catalogs for a task end: with exit code 0, or with one line ``error: CODE: message`` and 1.

They only read, so an error of the store may be temporary: nothing was changed, and the task may retry.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

from iceberg_ops.config.secrets import hide_in_logs, hide_passwords
from iceberg_ops.errors import CatalogUnavailableError, IcebergOpsError
from iceberg_ops.io.machine_limits import typed_limits


def run_with_exit_code(work: Callable[[], None]) -> int:
    """Do the work; returns 0, or 1 after the line on standard error. An error outside our tree is INTERNAL."""
    hide_in_logs()
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    try:
        with typed_limits():
            work()
    except IcebergOpsError as e:
        return _failed(e.code, str(e))
    except OSError as e:
        return _failed(CatalogUnavailableError.code, f"{e.filename or 'the catalog or its store'}: {e.strerror or e}")
    except Exception as e:  # noqa: BLE001 - the task must see one line
        return _failed("INTERNAL", f"{type(e).__name__}: {e}")
    return 0


def _failed(code: str, message: str) -> int:
    print(f"error: {code}: {hide_passwords(' '.join(message.split()))}", file=sys.stderr)
    return 1
