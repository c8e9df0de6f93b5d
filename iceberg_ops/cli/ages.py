"""Ages in people's notation: ``30d``, ``12h``, ``15m``, ``10s``, ``500ms``."""

from __future__ import annotations

from iceberg_ops.config.option_parsing import UNIT_MS, duration_ms
from iceberg_ops.config.whole_numbers import LONG_MAX
from iceberg_ops.errors import OptionError

_SIZES = {unit: UNIT_MS[unit] for unit in ("d", "h", "m", "s", "ms")}


def parse_age(text: str | None) -> int | None:
    """``2w``, ``30d``, ``12h``, ``15m``, ``10s`` or ``500ms`` as milliseconds. Raises OptionError."""
    if text is None:
        return None
    try:
        ms = duration_ms(text.lower())
    except ValueError:
        ms = 0
    if ms == 0:
        units = ", ".join(UNIT_MS)
        most = f"at most {LONG_MAX // _SIZES['d']}d"
        raise OptionError(f"age {text!r}: must be a whole number above 0 with a unit ({units}), and {most}")
    return ms


def age_text(ms: int) -> str:
    """Milliseconds in the form of ``parse_age``, in the largest exact unit up to days."""
    return next(f"{ms // size}{unit}" for unit, size in _SIZES.items() if ms % size == 0)
