"""A client of Google Cloud Storage from Iceberg's ``gcs.*`` properties.

Credentials: ``gcs.oauth2.token``, else application default credentials (GOOGLE_APPLICATION_CREDENTIALS, or the credentials of
gcloud), otherwise the instance's service account.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from obstore.store import GCSStore, ObjectStore

from iceberg_ops.io.renewal import Renewal
from iceberg_ops.io.stores.settings import address, client_options, expiry, flag, refuse, retries

if TYPE_CHECKING:
    from obstore.store import GCSConfig, GCSCredential

SCHEMES = ("gs",)
_TOKEN = "gcs.oauth2.token"
_KEYS = "files are written with the bucket's own encryption"
_REFUSED = {
    "gcs.encryption-key": _KEYS,
    "gcs.decryption-key": _KEYS,
    "gcs.user-project": "requests are billed to the bucket's project",
    "gcs.impersonate.": "other service accounts are not taken on here: give a token, or credentials of that account",
}

_NOBODY = '{"client_email": "", "private_key": "", "private_key_id": "", "disable_oauth": true}'
"""A service account that asks for no token: the client asks one for uploads even where it signs nothing."""


def gcs_store(bucket: str, properties: Mapping[str, str], renewal: Renewal | None = None) -> ObjectStore:
    """Raises OptionError, UnsupportedError."""
    refuse(properties, _REFUSED)
    config: GCSConfig = {}
    token = properties.get(_TOKEN)
    if token:
        config["bearer_token"] = token
    if flag(properties, "gcs.no-auth", False):
        config["service_account_key"] = _NOBODY
    endpoint = address(properties, "gcs.service.host")
    if endpoint is not None:
        config["base_url"] = endpoint
    return GCSStore(
        bucket,
        config=config,
        client_options=client_options(endpoint),
        retry_config=retries(properties, "gcs"),
        credential_provider=None if not token else _given(token) if renewal is None else partial(_lent, renewal),
    )


def _given(token: str) -> Callable[[], GCSCredential]:
    """Only the token of the properties: the client would use the environment as well."""
    return lambda: {"token": token, "expires_at": None}


def _lent(renewal: Renewal) -> GCSCredential:
    """A token that is lent, with its expiry."""
    properties = renewal()
    return {"token": properties[_TOKEN], "expires_at": expiry(properties, [f"{_TOKEN}-expires-at"])}
