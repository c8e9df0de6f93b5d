"""The demo's own secrets: created once, in a file that only the owner can read."""

from __future__ import annotations

import base64
import json
import os
import secrets
from pathlib import Path

from demo.places import Places

S3_ACCESS_KEY, S3_SECRET_KEY = "s3-access-key", "s3-secret-key"
POSTGRESQL_PASSWORD = "postgresql-password"
_NO_SECRET = frozenset({S3_ACCESS_KEY})
"""The id of a key names its owner, and is logged by stores."""


def credentials(places: Places) -> dict[str, str]:
    """Every secret by its name; the same from the first call on."""
    if not places.secrets_file.is_file():
        made = {
            "jwt-secret": secrets.token_urlsafe(64),
            "api-secret-key": secrets.token_urlsafe(32),
            "fernet-key": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            POSTGRESQL_PASSWORD: secrets.token_urlsafe(24),
            S3_ACCESS_KEY: f"demo{secrets.token_hex(8)}",
            S3_SECRET_KEY: secrets.token_urlsafe(30),
        }
        write_private(places.secrets_file, json.dumps(made) + "\n")
    return dict(json.loads(places.secrets_file.read_text()))


def secret_values(places: Places) -> dict[str, str]:
    """Every text that must be shown nowhere, by its name."""
    hidden = {name: value for name, value in credentials(places).items() if name not in _NO_SECRET}
    passwords = json.loads(places.password_file.read_text()) if places.password_file.is_file() else {}
    return hidden | {f"password of {user}": value for user, value in passwords.items()}


def write_private(path: Path, text: str) -> None:
    """Write a file that only the owner can read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as out:
        out.write(text)
