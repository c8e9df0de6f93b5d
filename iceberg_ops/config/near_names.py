"""Similar names, for errors about an unknown name."""

from __future__ import annotations

from collections.abc import Iterable

_MOST = 3


def near_names(name: str, known: Iterable[str], *, likeness: float = 0.6) -> list[str]:
    """At most three of ``known`` of which ``name`` may be a misspelling, the nearest first. Case, and ``-`` or ``_`` between
    words, make no difference. ``likeness``: from 0 (anything) to 1 (the same)."""
    from difflib import get_close_matches  # noqa: PLC0415 - only an error needs it, and every command imports this module

    folded: dict[str, str] = {}
    for candidate in known:
        folded.setdefault(_folded(candidate), candidate)
    return [folded[match] for match in get_close_matches(_folded(name), folded, n=_MOST, cutoff=likeness)]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`` (did you mean 'a' or 'b'?)``, with the space before it; empty if no name is similar."""
    near = near_names(name, known)
    return f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""


def _folded(name: str) -> str:
    return name.lower().replace("_", "-")
