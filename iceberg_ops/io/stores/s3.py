"""A client of S3, or of an S3-compatible store, from Iceberg's ``s3.*`` and ``client.*`` properties.

Credentials are those that ``io.aws.key_selection`` finds; the client requests them again before they expire.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from obstore.store import ObjectStore, S3Store

from iceberg_ops.errors import OptionError
from iceberg_ops.io.aws.key_selection import select_keys
from iceberg_ops.io.aws.keys import LONGEST_KNOWN, AwsKeys, KeySource, now
from iceberg_ops.io.renewal import Renewal
from iceberg_ops.io.stores.settings import address, client_options, expiry, flag, number, refuse, retries

if TYPE_CHECKING:
    from obstore.store import S3Config, S3Credential, S3CredentialProvider

SCHEMES = ("s3", "s3a", "s3n")
PART_SIZE = "s3.multipart.part-size-bytes"
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_LEAST_PART = 5 << 20
_EXPIRES = "s3.session-token-expires-at-ms"

_REFUSED = {
    "client.assume-role.tags.": "roles are assumed without tags",
    "client.credentials-provider": "classes of Java give no keys here: set s3.access-key-id, a profile or the environment",
    "s3.access-points.": "buckets are named as they are",
    "s3.acl": "files are written without one",
    "s3.write.storage-class": "files are written in the store's default class",
    "s3.write.tags.": "files are written without tags",
    "s3.delete.tags.": "files are deleted, not tagged",
}
_ENCRYPTION = {"s3": "AES256", "kms": "aws:kms", "dsse-kms": "aws:kms:dsse"}


def s3_store(bucket: str, properties: Mapping[str, str], renewal: Renewal | None = None) -> ObjectStore:
    """Raises OptionError, UnsupportedError."""
    refuse(properties, _REFUSED)
    if not flag(properties, "s3.delete-enabled", True):
        refuse(properties, {"s3.delete-enabled": "maintenance deletes files; use a read-only catalog, or set it to true"})
    if flag(properties, "s3.remote-signing-enabled", False):
        refuse(properties, {"s3.remote-signing-enabled": "requests are signed here"})
    endpoint = address(properties, "s3.endpoint")
    is_anonymous = flag(properties, "s3.anonymous", False)
    aws_keys = None if is_anonymous else select_keys(properties, "s3")
    config: S3Config = {**_encryption(properties)}
    if region := properties.get("s3.region") or properties.get("client.region") or (aws_keys.region if aws_keys else None):
        config["region"] = region
    if is_anonymous:
        config["skip_signature"] = True
    keys = None if aws_keys is None else aws_keys.keys
    if aws_keys is not None and aws_keys.are_given:
        config |= _as_they_are(aws_keys.keys())
        keys = aws_keys.keys if renewal is None else partial(_lent, renewal)
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
        credential_provider=None if keys is None else _provider(keys),
    )


def part_size(properties: Mapping[str, str], default: int) -> int:
    """Bytes of a part of a large file. Raises OptionError."""
    size = number(properties, PART_SIZE, default)
    if size < _LEAST_PART:
        raise OptionError(f"property {PART_SIZE} {size}: must be at least {_LEAST_PART}, which S3 demands")
    return size


def _as_they_are(keys: AwsKeys) -> S3Config:
    config: S3Config = {"access_key_id": keys.key_id, "secret_access_key": keys.secret}
    if keys.session_token:
        config["session_token"] = keys.session_token
    return config


def _lent(renewal: Renewal) -> AwsKeys:
    """Vended keys, with their expiry. Raises OptionError."""
    properties = renewal()
    return replace(select_keys(properties, "s3").keys(), expires_at=expiry(properties, [_EXPIRES]))


def _provider(keys: KeySource) -> S3CredentialProvider:
    """The function that the client calls before its keys expire, also in the middle of a job."""

    def current() -> S3Credential:
        current_keys = keys()
        return {
            "access_key_id": current_keys.key_id,
            "secret_access_key": current_keys.secret,
            "token": current_keys.session_token,
            "expires_at": current_keys.expires_at or now() + LONGEST_KNOWN,
        }

    return current


def _encryption(properties: Mapping[str, str]) -> S3Config:
    """The encryption by ``s3.sse.type`` and ``s3.sse.key``, as in Java's S3FileIO."""
    kind, key = properties.get("s3.sse.type", "none").lower(), properties.get("s3.sse.key")
    if kind == "none":
        return {}
    if kind == "custom":
        if key is None:
            raise OptionError("property s3.sse.type custom: needs the key, as Base64, in s3.sse.key")
        return {"server_side_encryption": "sse-c", "sse_customer_key_base64": key}
    if kind not in _ENCRYPTION:
        raise OptionError(f"property s3.sse.type {kind!r}: must be one of none, {', '.join(_ENCRYPTION)}, custom")
    config: S3Config = {"server_side_encryption": _ENCRYPTION[kind]}
    if key is not None and kind != "s3":
        config["sse_kms_key_id"] = key
    return config


def _endpoint_of_environment() -> str | None:
    """The address that the client uses if the properties name none."""
    return next((endpoint for name in _ENDPOINTS if (endpoint := os.environ.get(name))), None)


def _with_bucket(endpoint: str | None, bucket: str) -> str | None:
    """The client expects the bucket in the address if it is not in the path."""
    if endpoint is None:
        return None
    parts = urlsplit(endpoint)
    return urlunsplit(parts._replace(netloc=f"{bucket}.{parts.netloc}"))
