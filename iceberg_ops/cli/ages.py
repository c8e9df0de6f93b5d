"""Ages as people write them: ``30d``, ``12h``, ``15m``, ``10s``, ``500ms``."""

from __future__ import annotations

import re

from iceberg_ops.errors import OptionError

_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_MOST_MS = 2**63 - 1
"""What the format has room for."""


def parse_age(text: str | None) -> int | None:
    """``30d``, ``12h``, ``15m``, ``10s`` or ``500ms`` as milliseconds. Raises OptionError."""
    if text is None:
        return None
    m = re.fullmatch(r"([0-9]{1,19})(ms|s|m|h|d)", text.strip().lower())
    if m is None or not 0 < int(m[1]) * _UNITS[m[2]] <= _MOST_MS:
        most = f"at most {_MOST_MS // _UNITS['d']}d"
        raise OptionError(f"age {text!r}: must be a whole number above 0 with a unit, ms, s, m, h or d, and {most}")
    return int(m[1]) * _UNITS[m[2]]


def age_text(ms: int) -> str:
    """Milliseconds as ``parse_age`` takes them, in the largest unit that is exact."""
    return next(f"{ms // size}{unit}" for unit, size in _UNITS.items() if ms % size == 0)
