"""A client of Azure Blob Storage from Iceberg's ``adls.*`` properties.

A location is ``abfs[s]://container@account.dfs.core.windows.net/key`` (or ``wasb[s]``, ``.blob.``); ``abfss://container/key`` means
the account of ``adls.account-name``. Credentials: a connection string, a shared key, a SAS token, a bearer token or a client's
secret of the properties, each also by account (``adls.sas-token.<account>``); otherwise those of the environment, a workload
identity or the machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from obstore.store import AzureStore, ObjectStore

from iceberg_ops.errors import OptionError
from iceberg_ops.io.renewal import Renewal
from iceberg_ops.io.stores.settings import address, client_options, expiry, flag, refuse, retries

if TYPE_CHECKING:
    from obstore.store import AzureConfig, AzureCredential, AzureSASToken

SCHEMES = ("abfs", "abfss", "wasb", "wasbs")
_SAS = ("adls.sas-token",)
_ADDRESS = "the address is the location's: name another one as adls.endpoint"
_REFUSED = {
    "adls.account-host": _ADDRESS,
    "adls.blob-storage-authority": _ADDRESS,
    "adls.token-credential-provider": "classes of Java give no credentials here: set a key, a token, or the environment",
}
_NAMES = {
    "account_name": ("adls.account-name", "adls.auth.shared-key.account.name"),
    "account_key": ("adls.account-key", "adls.auth.shared-key.account.key"),
    "sas_key": _SAS,
    "token": ("adls.token",),
    "tenant_id": ("adls.tenant-id",),
    "client_id": ("adls.client-id",),
    "client_secret": ("adls.client-secret",),
}
"""The client's name of a setting -> the properties that give it, the first one first."""
_BEFORE_PRINCIPALS = (
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_ACCESS_KEY",
    "AZURE_STORAGE_MASTER_KEY",
    "AZURE_STORAGE_KEY",
    "AZURE_STORAGE_TOKEN",
    "AZURE_STORAGE_BEARER_TOKEN",
)
"""Variables of the environment whose credentials the client takes before a service principal's."""


def azure_store(bucket: str, properties: Mapping[str, str], renewal: Renewal | None = None) -> ObjectStore:
    """``bucket``: ``container@account.host``, or the container alone. Raises OptionError, UnsupportedError."""
    refuse(properties, _REFUSED)
    container, _, host = bucket.partition("@")
    account = host.partition(".")[0] or None
    config: AzureConfig = {}
    endpoint = address(properties, "adls.endpoint") or _endpoint_for_host(host)
    if text := _account_property(properties, ("adls.connection-string",), account, host):
        named = _from_connection_string(text, config)
        owner = config.get("account_name") or _account_name(named)
        if account is not None and owner is not None and owner != account:
            raise OptionError(
                f"property adls.connection-string: is that of account {owner}, and not of {account}, which has the location: name "
                f"it adls.connection-string.{owner}"
            )
        endpoint = named or endpoint
    for name, keys in _NAMES.items():
        if value := _account_property(properties, keys, account, host):
            config[name] = value  # type: ignore[literal-required]
    if account is not None:
        config["account_name"] = account
    if flag(properties, "adls.anonymous", False):
        config["skip_signature"] = True
    if endpoint is not None:
        config["endpoint"] = endpoint
    is_lent = renewal is not None and "sas_key" in config
    return AzureStore(
        container,
        config=config,
        client_options=client_options(endpoint),
        retry_config=retries(properties, "adls"),
        credential_provider=partial(_lent, renewal, account, host) if renewal is not None and is_lent else _given(config),
    )


def _endpoint_for_host(host: str) -> str | None:
    """The address of an account in another cloud than the public one (``core.chinacloudapi.cn``, ``dfs.fabric.microsoft.com``): the
    account of that name in the public cloud belongs to somebody else. None for the public cloud, which is the client's default."""
    if not host.partition(".")[2] or host.endswith(".core.windows.net"):
        return None
    return f"https://{host.replace('.dfs.', '.blob.', 1)}"


def _account_name(endpoint: str | None) -> str | None:
    """The account whose address Azure made (``account.blob.core.windows.net``); None for another address."""
    match = re.match(r"https?://([a-z0-9]{3,24})(?:-secondary)?\.(?:[a-z0-9-]+\.)?blob\.", endpoint or "")
    return None if match is None else match[1]


def _given(config: AzureConfig) -> Callable[[], AzureCredential] | None:
    """Only the credential of the properties, the strongest first: the client would prefer a key or token of the environment. Raises
    OptionError for a service principal that the client would ignore for this reason."""
    credential: AzureCredential | None = None
    if "token" in config:
        credential = {"token": config["token"], "expires_at": None}
    elif "account_key" in config:
        credential = {"access_key": config["account_key"], "expires_at": None}
    elif "sas_key" in config:
        credential = {"sas_token": config["sas_key"], "expires_at": None}
    elif "client_secret" in config and (other := next((name for name in _BEFORE_PRINCIPALS if os.environ.get(name)), None)):
        raise OptionError(
            f"property adls.client-secret: the client takes {other} of the environment before it: unset that variable for this job"
        )
    return None if credential is None else lambda: credential


def _lent(renewal: Renewal, account: str | None, host: str) -> AzureSASToken:
    """A vended SAS token, with its expiry. Raises OptionError."""
    properties = renewal()
    token = _account_property(properties, _SAS, account, host)
    if token is None:
        raise OptionError("the catalog lends no SAS token any more")
    names = [f"adls.sas-token-expires-at-ms{suffix}" for suffix in (f".{host}", f".{account}", "")]
    return {"sas_token": token, "expires_at": expiry(properties, names)}


def _account_property(properties: Mapping[str, str], names: tuple[str, ...], account: str | None, host: str) -> str | None:
    """A property of the account, which Java names by its host and PyIceberg by its name, else one for all accounts."""
    for name in names:
        for suffix in (f".{host}", f".{account}"):
            if account is not None and (value := properties.get(name + suffix)):
                return value
        if value := properties.get(name):
            return value
    return None


def _from_connection_string(text: str, config: AzureConfig) -> str | None:
    """Use a connection string's settings; returns its endpoint. Raises OptionError, without the string."""
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
