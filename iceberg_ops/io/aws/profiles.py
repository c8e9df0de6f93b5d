"""Profiles of AWS, from ``~/.aws/credentials`` and ``~/.aws/config``.

The files are read again each time, because tools that renew keys write them there.
"""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from iceberg_ops.errors import OptionError


@dataclass(frozen=True, slots=True)
class ProfileFiles:
    """Where the profiles are."""

    folder: Path
    credentials: Path
    config: Path

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> ProfileFiles:
        folder = Path(environment.get("HOME", "~")).expanduser() / ".aws"
        return cls(
            folder,
            Path(environment.get("AWS_SHARED_CREDENTIALS_FILE") or folder / "credentials"),
            Path(environment.get("AWS_CONFIG_FILE") or folder / "config"),
        )

    def profile(self, name: str) -> dict[str, str]:
        """The settings of the profile in both files; the credentials file has priority. Raises OptionError for a file that is not
        an INI file."""
        section = name if name == "default" else f"profile {name}"
        return {**_section(self.config, section), **_section(self.credentials, name)}

    def session(self, name: str) -> dict[str, str]:
        """A session of single sign-on. Raises OptionError."""
        return _section(self.config, f"sso-session {name}")


def named_profile(environment: Mapping[str, str], name: str | None = None) -> tuple[str, bool]:
    """The profile to use, and whether it was named explicitly. ``name``: from a property."""
    named = name or environment.get("AWS_PROFILE") or environment.get("AWS_DEFAULT_PROFILE")
    return named or "default", bool(named)


def _section(path: Path, name: str) -> dict[str, str]:
    parser = configparser.RawConfigParser(default_section="", strict=False)
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError) as e:
        # The error of the parser shows lines of the file, which may be keys.
        raise OptionError(f"{path} cannot be read as a file of AWS profiles ({type(e).__name__}): correct it") from None
    return dict(parser.items(name)) if parser.has_section(name) else {}
