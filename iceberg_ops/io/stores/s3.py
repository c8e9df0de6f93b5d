"""A client of S3, or of a store that speaks S3, from Iceberg's ``s3.*`` and ``client.*`` properties.

Credentials: the properties' own, else those of ``s3.profile-name``, of the environment or of AWS_PROFILE, else a web identity, a
container's or an instance's role, as they are found.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from obstore.store import ObjectStore, S3Store

from iceberg_ops.errors import OptionError
from iceberg_ops.io.stores.aws_profiles import Profile
from iceberg_ops.io.stores.settings import address, client_options, flag, number, refuse, retries

if TYPE_CHECKING:
    from obstore.store import S3Config, S3Credential

SCHEMES = ("s3", "s3a", "s3n")
PART_SIZE = "s3.multipart.part-size-bytes"
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_LEAST_PART = 5 << 20

_ROLE = "roles are not assumed here: let the environment, a profile or the instance give the role's keys"
_REFUSED = {
    "s3.role-arn": _ROLE,
    "client.assume-role.": _ROLE,
    "client.credentials-provider": "classes of Java give no keys here: set s3.access-key-id, a profile or the environment",
    "s3.access-points.": "buckets are named as they are",
    "s3.acl": "files are written without one",
    "s3.write.storage-class": "files are written in the store's default class",
    "s3.write.tags.": "files are written without tags",
    "s3.delete.tags.": "files are deleted, not tagged",
}
_ENCRYPTION = {"s3": "AES256", "kms": "aws:kms", "dsse-kms": "aws:kms:dsse"}


def s3_store(bucket: str, properties: Mapping[str, str]) -> ObjectStore:
    """Raises OptionError, UnsupportedError."""
    refuse(properties, _REFUSED)
    if not flag(properties, "s3.delete-enabled", True):
        refuse(properties, {"s3.delete-enabled": "maintenance deletes files; use a read-only catalog, or set it to true"})
    if flag(properties, "s3.remote-signing-enabled", False):
        refuse(properties, {"s3.remote-signing-enabled": "requests are signed here"})
    endpoint = address(properties, "s3.endpoint")
    profile = None if properties.get("s3.access-key-id") else Profile.chosen(name=properties.get("s3.profile-name"))
    config: S3Config = {**_identity(properties), **_encryption(properties)}
    if region := properties.get("s3.region") or properties.get("client.region") or (profile.region if profile else None):
        config["region"] = region
    if flag(properties, "s3.anonymous", False):
        config["skip_signature"] = True
    if flag(properties, "s3.checksum-enabled", False):
        config["checksum_algorithm"] = "SHA256"
    if not flag(properties, "s3.path-style-access", True):
        config["virtual_hosted_style_request"] = True
        endpoint = _with_bucket(endpoint, bucket)
    if endpoint is not None:
        config["endpoint"] = endpoint
    return S3Store(
        bucket,
        config=config,
        client_options=client_options(endpoint or _endpoint_of_environment()),
        retry_config=retries(properties, "s3"),
        credential_provider=profile or _given_keys(config),
    )


def part_size(properties: Mapping[str, str], default: int) -> int:
    """Bytes of a part of a large file. Raises OptionError."""
    size = number(properties, PART_SIZE, default)
    if size < _LEAST_PART:
        raise OptionError(f"property {PART_SIZE} {size}: must be at least {_LEAST_PART}, which S3 demands")
    return size


def _identity(properties: Mapping[str, str]) -> S3Config:
    key, secret = properties.get("s3.access-key-id"), properties.get("s3.secret-access-key")
    if (key is None) != (secret is None):
        raise OptionError("properties s3.access-key-id and s3.secret-access-key: set both, or none")
    found: S3Config = {}
    if key is not None and secret is not None:
        found["access_key_id"], found["secret_access_key"] = key, secret
        if token := properties.get("s3.session-token"):
            found["session_token"] = token
    return found


def _given_keys(config: S3Config) -> Callable[[], S3Credential] | None:
    """The keys of the properties alone: the client would send a session token of the environment with them."""
    if "access_key_id" not in config:
        return None
    keys: S3Credential = {
        "access_key_id": config["access_key_id"],
        "secret_access_key": config["secret_access_key"],
        "token": config.get("session_token"),
        "expires_at": None,
    }
    return lambda: keys


def _encryption(properties: Mapping[str, str]) -> S3Config:
    """Of ``s3.sse.type`` and ``s3.sse.key``, as Java's S3FileIO takes them."""
    kind, key = properties.get("s3.sse.type", "none").lower(), properties.get("s3.sse.key")
    if kind == "none":
        return {}
    if kind == "custom":
        if key is None:
            raise OptionError("property s3.sse.type custom: needs the key, as Base64, in s3.sse.key")
        return {"server_side_encryption": "sse-c", "sse_customer_key_base64": key}
    if kind not in _ENCRYPTION:
        raise OptionError(f"property s3.sse.type {kind!r}: must be one of none, {', '.join(_ENCRYPTION)}, custom")
    found: S3Config = {"server_side_encryption": _ENCRYPTION[kind]}
    if key is not None and kind != "s3":
        found["sse_kms_key_id"] = key
    return found


def _endpoint_of_environment() -> str | None:
    """Which address the client takes where the properties name none."""
    return next((found for name in _ENDPOINTS if (found := os.environ.get(name))), None)


def _with_bucket(endpoint: str | None, bucket: str) -> str | None:
    """The client expects the bucket in the address where it is not in the path."""
    if endpoint is None:
        return None
    parts = urlsplit(endpoint)
    return urlunsplit(parts._replace(netloc=f"{bucket}.{parts.netloc}"))
