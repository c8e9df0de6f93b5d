"""A client of Azure Blob Storage from Iceberg's ``adls.*`` properties.

A location is ``abfs[s]://container@account.dfs.core.windows.net/key`` (or ``wasb[s]``, ``.blob.``); ``abfss://container/key``
means the account of ``adls.account-name``. Credentials: a connection string, a shared key, a SAS token, a bearer token or a
client's secret of the properties, each also by account (``adls.sas-token.<account>``); else what the environment, a workload
identity or the machine gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from obstore.store import AzureStore, ObjectStore

from iceberg_ops.errors import OptionError
from iceberg_ops.io.stores.settings import address, client_options, flag, refuse, retries

if TYPE_CHECKING:
    from obstore.store import AzureConfig

SCHEMES = ("abfs", "abfss", "wasb", "wasbs")
_REFUSED = {
    "adls.token-credential-provider": "classes of Java give no credentials here: set a key, a token, or the environment",
    "adls.refresh-credentials-endpoint": "credentials are not fetched from a catalog here",
}
_NAMES = {
    "account_name": ("adls.account-name", "adls.auth.shared-key.account.name"),
    "account_key": ("adls.account-key", "adls.auth.shared-key.account.key"),
    "sas_key": ("adls.sas-token",),
    "token": ("adls.token",),
    "tenant_id": ("adls.tenant-id",),
    "client_id": ("adls.client-id",),
    "client_secret": ("adls.client-secret",),
}
"""The client's name of a setting -> the properties that give it, the first one first."""


def azure_store(bucket: str, properties: Mapping[str, str]) -> ObjectStore:
    """``bucket``: ``container@account.host``, or the container alone. Raises OptionError, UnsupportedError."""
    refuse(properties, _REFUSED)
    container, _, host = bucket.partition("@")
    account = host.partition(".")[0] or None
    config: AzureConfig = {}
    endpoint = address(properties, "adls.endpoint")
    if text := _of(properties, ("adls.connection-string",), account, host):
        endpoint = _from_connection_string(text, config) or endpoint
    for name, keys in _NAMES.items():
        if value := _of(properties, keys, account, host):
            config[name] = value  # type: ignore[literal-required]
    if account is not None:
        config["account_name"] = account
    if flag(properties, "adls.anonymous", False):
        config["skip_signature"] = True
    if endpoint is not None:
        config["endpoint"] = endpoint
    return AzureStore(container, config=config, client_options=client_options(endpoint), retry_config=retries(properties, "adls"))


def _of(properties: Mapping[str, str], names: tuple[str, ...], account: str | None, host: str) -> str | None:
    """A property of the account, which Java names by its host and PyIceberg by its name, else one for all accounts."""
    for name in names:
        for suffix in (f".{host}", f".{account}"):
            if account is not None and (value := properties.get(name + suffix)):
                return value
        if value := properties.get(name):
            return value
    return None


def _from_connection_string(text: str, config: AzureConfig) -> str | None:
    """Take a connection string's settings; the endpoint that it names. Raises OptionError, which shows nothing of it."""
    settings = {key.strip().lower(): value for part in text.split(";") if part.strip() for key, _, value in [part.partition("=")]}
    if "accountname" not in settings and "blobendpoint" not in settings:
        raise OptionError("property adls.connection-string: it has neither AccountName nor BlobEndpoint")
    if name := settings.get("accountname"):
        config["account_name"] = name
    if key := settings.get("accountkey"):
        config["account_key"] = key
    if token := settings.get("sharedaccesssignature"):
        config["sas_key"] = token
    if endpoint := settings.get("blobendpoint"):
        return address({"adls.connection-string": endpoint}, "adls.connection-string")
    if settings.get("endpointsuffix", "core.windows.net") != "core.windows.net" and name:
        return f"{settings.get('defaultendpointsprotocol', 'https')}://{name}.blob.{settings['endpointsuffix']}"
    return None
