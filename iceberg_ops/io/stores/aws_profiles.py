"""Keys and region of an AWS profile, out of ``~/.aws/credentials`` and ``~/.aws/config``.

The client takes credentials from the environment, a web identity, a container or an instance role, and does not read profiles. A
profile is used where AWS_PROFILE names one, or where its keys are in section ``default`` and the environment holds none. The files
are read again before the keys are a few minutes old, because tools that renew them write them there.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from iceberg_ops.errors import OptionError, TerminalError

if TYPE_CHECKING:
    from obstore.store import S3Credential

_KNOWN_FOR = timedelta(minutes=5)
_OTHER_SOURCES = ("credential_process", "sso_session", "sso_start_url", "role_arn", "web_identity_token_file", "credential_source")


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile of these files, whose keys are read when they are asked for (see ``obstore.store.S3CredentialProvider``)."""

    name: str
    credentials_file: Path
    config_file: Path

    @classmethod
    def chosen(cls, environment: Mapping[str, str] = os.environ, name: str | None = None) -> Profile | None:
        """The profile to use; None where the client finds credentials without one. ``name``: one that a property names."""
        folder = Path(environment.get("HOME", "~")).expanduser() / ".aws"
        profile = cls(
            name or environment.get("AWS_PROFILE") or environment.get("AWS_DEFAULT_PROFILE") or "default",
            Path(environment.get("AWS_SHARED_CREDENTIALS_FILE") or folder / "credentials"),
            Path(environment.get("AWS_CONFIG_FILE") or folder / "config"),
        )
        is_named = bool(name or environment.get("AWS_PROFILE") or environment.get("AWS_DEFAULT_PROFILE"))
        if not name and environment.get("AWS_ACCESS_KEY_ID"):
            return None
        settings = profile.settings()
        if is_named and not settings:
            raise OptionError(
                f"AWS profile {profile.name!r} is not in {profile.credentials_file} or {profile.config_file}: correct AWS_PROFILE"
            )
        if "aws_access_key_id" in settings:
            return profile
        if is_named and (source := next((key for key in _OTHER_SOURCES if key in settings), None)) is not None:
            raise OptionError(
                f"AWS profile {profile.name!r} gets its keys by {source}, which is not supported: put them into the environment "
                "(`aws configure export-credentials --format env`), or into the credentials file"
            )
        return None

    def settings(self) -> dict[str, str]:
        """What both files say of the profile; the credentials file prevails. Raises OptionError for a file that is no INI file."""
        section = self.name if self.name == "default" else f"profile {self.name}"
        return {**_section(self.config_file, section), **_section(self.credentials_file, self.name)}

    @property
    def region(self) -> str | None:
        return self.settings().get("region")

    def __call__(self) -> S3Credential:
        """The keys as the files have them now. Raises TerminalError."""
        settings = self.settings()
        if not settings.get("aws_access_key_id") or not settings.get("aws_secret_access_key"):
            raise TerminalError(f"AWS profile {self.name!r} has no aws_access_key_id and aws_secret_access_key in its files")
        return {
            "access_key_id": settings["aws_access_key_id"],
            "secret_access_key": settings["aws_secret_access_key"],
            "token": settings.get("aws_session_token") or None,
            "expires_at": datetime.now(UTC) + _KNOWN_FOR,
        }


def _section(path: Path, name: str) -> dict[str, str]:
    parser = configparser.RawConfigParser(default_section="", strict=False)
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError) as e:
        # The error of the parser shows lines of the file, which may be keys.
        raise OptionError(f"{path} cannot be read as a file of AWS profiles ({type(e).__name__}): correct it") from None
    return dict(parser.items(name)) if parser.has_section(name) else {}
