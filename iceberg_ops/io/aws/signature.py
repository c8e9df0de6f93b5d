"""AWS Signature Version 4 of a request (AWS: "Create a signed AWS API request"), for services other than S3.

Signed headers are ``host``, ``content-type`` and all that begin with ``x-amz-``; the signature protects only these, others may be
changed on the way. The signature percent-encodes paths once more than the request.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from urllib.parse import quote, unquote

from iceberg_ops.io.aws.keys import AwsKeys

_ALGORITHM = "AWS4-HMAC-SHA256"


def signing_headers(
    method: str,
    path: str,
    query: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    keys: AwsKeys,
    service: str,
    region: str,
    at: datetime,
) -> dict[str, str]:
    """The headers that sign the request; ``path`` and ``query`` are percent-encoded, as they are sent."""
    time = at.strftime("%Y%m%dT%H%M%SZ")
    added = {"X-Amz-Date": time}
    if keys.session_token:
        added["X-Amz-Security-Token"] = keys.session_token
    both = {name.lower(): value for name, value in {**headers, **added}.items()}
    signed = {name: " ".join(value.split()) for name, value in both.items() if _is_signed(name)}
    names = ";".join(sorted(signed))
    canonical = "\n".join(
        (
            method,
            quote(path, safe="/~"),
            _canonical_query(query),
            *(f"{name}:{signed[name]}" for name in sorted(signed)),
            "",
            names,
            hashlib.sha256(body).hexdigest(),
        )
    )
    scope = f"{time[:8]}/{region}/{service}/aws4_request"
    text = "\n".join((_ALGORITHM, time, scope, hashlib.sha256(canonical.encode()).hexdigest()))
    signature = hmac.new(_key(keys, time[:8], region, service), text.encode(), hashlib.sha256).hexdigest()
    proof = f"{_ALGORITHM} Credential={keys.key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    return {**added, "Authorization": proof}


def _key(keys: AwsKeys, day: str, region: str, service: str) -> bytes:
    key = f"AWS4{keys.secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key


def _is_signed(name: str) -> bool:
    return name in ("host", "content-type") or name.startswith("x-amz-")


def _canonical_query(query: str) -> str:
    pairs = (part.partition("=") for part in query.split("&") if part)
    encoded = sorted((quote(unquote(name), safe="~"), quote(unquote(value), safe="~")) for name, _, value in pairs)
    return "&".join(f"{name}={value}" for name, value in encoded)
