"""From Iceberg's properties, the environment and AWS profiles to a client of an object store; what is refused; what is loaded."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.errors import IcebergOpsError, OptionError, RuntimeMissingError, TerminalError, UnsupportedError
from iceberg_ops.io import resolving
from iceberg_ops.io.load import load_file_io
from iceberg_ops.io.stores.azure import azure_store
from iceberg_ops.io.stores.gcs import gcs_store
from iceberg_ops.io.stores.s3 import s3_store
from tests.servers.process import LOOPBACK
from tests.servers.proxy import Answer, FaultProxy
from tests.servers.stores import ACCESS_KEY, AZURE_ACCOUNT, AZURE_KEY, BUCKET, SECRET_KEY, Store

KEYS = {"s3.access-key-id": "AKIA", "s3.secret-access-key": "secret-of-test"}


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith(("AWS_", "GOOGLE_", "AZURE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


def _config(store: Any) -> dict[str, Any]:
    return dict(store.config)


def test_the_names_of_iceberg_are_those_of_the_client() -> None:
    found = _config(
        s3_store("b", {**KEYS, "s3.session-token": "t", "client.region": "eu-west-1", "s3.endpoint": "http://host:9000/"})
    )
    assert found == {
        "bucket": "b",
        "access_key_id": "AKIA",
        "secret_access_key": "secret-of-test",
        "session_token": "t",
        "region": "eu-west-1",
        "endpoint": "http://host:9000",
    }
    assert _config(s3_store("b", {**KEYS, "client.region": "a", "s3.region": "c"}))["region"] == "c"


def test_the_bucket_is_in_the_path_unless_told_otherwise() -> None:
    hosted = _config(s3_store("b", {**KEYS, "s3.endpoint": "https://host:9000", "s3.path-style-access": "false"}))
    assert (hosted["endpoint"], hosted["virtual_hosted_style_request"]) == ("https://b.host:9000", "true")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"s3.sse.type": "none", "s3.sse.key": "k"}, {}),
        ({"s3.sse.type": "s3"}, {"server_side_encryption": "AES256"}),
        ({"s3.sse.type": "kms", "s3.sse.key": "k"}, {"server_side_encryption": "aws:kms", "sse_kms_key_id": "k"}),
        ({"s3.sse.type": "dsse-kms"}, {"server_side_encryption": "aws:kms:dsse"}),
    ],
)
def test_files_are_encrypted_as_the_properties_say(given: Mapping[str, str], found: Mapping[str, str]) -> None:
    config = _config(s3_store("b", {**KEYS, **given}))
    assert {k: v for k, v in config.items() if "sse" in k or "encryption" in k} == found


WRONG: dict[str, tuple[Mapping[str, str], type[IcebergOpsError], str]] = {
    "half a key": ({"s3.access-key-id": "AKIA"}, OptionError, "set both, or none"),
    "a class": ({"s3.write.storage-class": "STANDARD_IA"}, UnsupportedError, "files are written in the store's default class"),
    "tags of a role": ({"client.assume-role.tags.a": "x"}, UnsupportedError, "because roles are assumed without tags"),
    "tags": ({"s3.write.tags.team": "x"}, UnsupportedError, "s3.write.tags.team, because files are written without tags"),
    "no deletes": ({"s3.delete-enabled": "false"}, UnsupportedError, "s3.delete-enabled, because maintenance deletes files"),
    "remote signing": ({"s3.remote-signing-enabled": "true"}, UnsupportedError, "requests are signed here"),
    "no boolean": ({"s3.path-style-access": "yes"}, OptionError, "must be true or false"),
    "no number": ({"s3.retry.num-retries": "-1"}, OptionError, "must be a whole number"),
    "encryption": ({"s3.sse.type": "rot13"}, OptionError, "must be one of none, s3, kms, dsse-kms, custom"),
    "no key": ({"s3.sse.type": "custom"}, OptionError, "needs the key"),
    "small parts": ({"s3.multipart.part-size-bytes": "100"}, OptionError, "must be at least 5242880"),
    "no address": ({"s3.endpoint": "nowhere"}, OptionError, "must be an address that begins with http:// or https://"),
    "no profile": ({"s3.profile-name": "nobody"}, OptionError, "'nobody' is not in"),
}


@pytest.mark.parametrize(("given", "error", "message"), WRONG.values(), ids=WRONG)
def test_what_is_not_understood_is_refused_by_name(given: Mapping[str, str], error: type[Exception], message: str) -> None:
    whole = given if "s3.access-key-id" in given or "s3.profile-name" in given else {**KEYS, **given}
    io = load_file_io(whole)
    with pytest.raises(error, match=message) as refused:
        io.write("s3://bucket/key", b"")
    assert "secret-of-test" not in str(refused.value)


def test_google_and_azure_by_the_names_of_java_and_pyiceberg() -> None:
    google = _config(gcs_store("b", {"gcs.oauth2.token": "t", "gcs.service.host": "http://host:1/", "gcs.project-id": "p"}))
    assert (google["bearer_token"], google["base_url"]) == ("t", "http://host:1")
    full = "lake@acc.dfs.core.windows.net"
    for given, name in (
        ({"adls.sas-token.acc": "sig=1"}, "sas_key"),
        ({"adls.sas-token.acc.dfs.core.windows.net": "sig=1", "adls.sas-token": "sig=2"}, "sas_key"),
        ({"adls.account-key": AZURE_KEY}, "account_key"),
        ({"adls.auth.shared-key.account.key": AZURE_KEY, "adls.auth.shared-key.account.name": "other"}, "account_key"),
        ({"adls.token": "t"}, "token"),
    ):
        found = _config(azure_store(full, given))
        assert (found["account_name"], found[name]) == ("acc", next(iter(given.values()))), given
    text = f"DefaultEndpointsProtocol=http;AccountName=acc;AccountKey={AZURE_KEY};BlobEndpoint=http://host:1/acc;"
    found = _config(azure_store("lake", {"adls.connection-string.acc": "no", "adls.connection-string": text}))
    assert (found["account_name"], found["account_key"], found["endpoint"]) == ("acc", AZURE_KEY, "http://host:1/acc")
    with pytest.raises(OptionError, match="neither AccountName nor BlobEndpoint"):
        azure_store("lake", {"adls.connection-string": "AccountKey=geheim"})
    with pytest.raises(OptionError, match=r"is that of account acc, and not of two.*name it adls\.connection-string\.acc") as wrong:
        azure_store("lake@two.dfs.core.windows.net", {"adls.connection-string": text})
    assert AZURE_KEY not in str(wrong.value)
    lent = {"adls.sas-token": "sig=1", "adls.refresh-credentials-endpoint": "v1/credentials"}
    assert _config(azure_store(full, lent))["sas_key"] == "sig=1", "what a catalog lends comes with it"


@pytest.mark.parametrize(
    ("host", "endpoint"),
    [
        ("acc.dfs.core.windows.net", None),
        ("acc", None),
        ("acc.dfs.core.chinacloudapi.cn", "https://acc.blob.core.chinacloudapi.cn"),
        ("acc.blob.core.usgovcloudapi.net", "https://acc.blob.core.usgovcloudapi.net"),
        ("acc.z01.dfs.storage.azure.net", "https://acc.z01.blob.storage.azure.net"),
        ("onelake.dfs.fabric.microsoft.com", "https://onelake.blob.fabric.microsoft.com"),
    ],
)
def test_an_account_in_another_cloud_is_not_looked_for_in_the_public_one(host: str, endpoint: str | None) -> None:
    assert _config(azure_store(f"lake@{host}", {"adls.sas-token": "sig=1"})).get("endpoint") == endpoint
    own = azure_store(f"lake@{host}", {"adls.sas-token": "sig=1", "adls.endpoint": "http://host:1/acc"})
    assert _config(own)["endpoint"] == "http://host:1/acc"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("org.apache.iceberg.aws.s3.S3FileIO", "s3"),
        ("org.apache.iceberg.gcp.gcs.GCSFileIO", "gcs"),
        ("org.apache.iceberg.azure.adlsv2.ADLSFileIO", "azure"),
        ("org.apache.iceberg.io.ResolvingFileIO", "resolving"),
    ],
)
def test_what_java_calls_a_file_io_is_understood(given: str, name: str) -> None:
    assert load_file_io({"io-impl": given, "kept": "x"}).properties == {"io-impl": name, "kept": "x"}


def test_a_store_of_one_kind_refuses_locations_of_another() -> None:
    with pytest.raises(UnsupportedError, match="its scheme is none of s3, s3a, s3n"):
        load_file_io({"io-impl": "s3"}).read("gs://bucket/key")
    with pytest.raises(UnsupportedError, match="its scheme is not file:"):
        load_file_io().read("webhdfs://host/key")


def test_a_client_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolving.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(RuntimeMissingError, match=r"pip install 'iceberg-ops\[stores\]'"):
        load_file_io().read("s3://bucket/key")


def test_work_on_local_files_loads_no_client(tmp_path: Path) -> None:
    program = textwrap.dedent(f"""
        import sys
        from iceberg_ops.io.load import load_file_io
        io = load_file_io()
        io.write("{tmp_path}/a", b"1")
        assert io.read("{tmp_path}/a") == b"1" and io.local_path("s3://b/k") is None
        assert "obstore" not in sys.modules
    """)
    subprocess.run([sys.executable, "-c", program], check=True)


# credentials


def _profile(folder: Path, text: str, file: str = "credentials") -> None:
    (folder / ".aws").mkdir(exist_ok=True)
    (folder / ".aws" / file).write_text(text)


def _of_store(store: Store) -> dict[str, str]:
    return {name: value for name, value in store.properties.items() if "key" not in name}


@pytest.mark.parametrize("variable", [None, "AWS_PROFILE"])
def test_keys_are_taken_from_a_profile_and_read_again(
    variable: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, object_store: Callable[[str], Store]
) -> None:
    store, name = object_store("versitygw"), "team" if variable else "default"
    _profile(tmp_path, f"[{name}]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n")
    if variable:
        monkeypatch.setenv(variable, name)
    io = load_file_io(_of_store(store))
    assert not io.exists(f"s3://{BUCKET}/nothing")
    assert load_file_io({**_of_store(store), "s3.profile-name": name}).exists(f"s3://{BUCKET}/nothing") is False


def test_keys_are_taken_from_the_environment_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, object_store: Callable[[str], Store]
) -> None:
    _profile(tmp_path, "[default]\naws_access_key_id = wrong\naws_secret_access_key = wrong\n")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    assert not load_file_io(_of_store(object_store("versitygw"))).exists(f"s3://{BUCKET}/nothing")


def test_the_address_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch, object_store: Callable[[str], Store]) -> None:
    store = object_store("versitygw")
    monkeypatch.setenv("AWS_ENDPOINT_URL", store.properties["s3.endpoint"])
    assert not load_file_io({k: v for k, v in store.properties.items() if k != "s3.endpoint"}).exists(f"s3://{BUCKET}/nothing")


def test_a_profile_that_loses_its_keys_is_a_terminal_error(tmp_path: Path, object_store: Callable[[str], Store]) -> None:
    _profile(tmp_path, f"[default]\naws_access_key_id = {ACCESS_KEY}\n")
    with pytest.raises(TerminalError, match=r"the credentials cannot be used .*AWS profile 'default' has no aws_access_key_id and"):
        load_file_io(_of_store(object_store("versitygw"))).read(f"s3://{BUCKET}/nothing")


@pytest.mark.parametrize(
    ("name", "environment"),
    [
        ("versitygw", {"AWS_ACCESS_KEY_ID": "other", "AWS_SECRET_ACCESS_KEY": "other", "AWS_SESSION_TOKEN": "other"}),
        ("versitygw", {"AWS_SESSION_TOKEN": "other"}),
        ("azurite", {"AZURE_STORAGE_TOKEN": "other"}),
        ("azurite", {"AZURE_STORAGE_ACCOUNT_KEY": AZURE_KEY}),
        ("azurite", {"AZURE_CLIENT_ID": "a", "AZURE_CLIENT_SECRET": "b", "AZURE_TENANT_ID": "c"}),
        ("gcs", {"GOOGLE_APPLICATION_CREDENTIALS": "/nowhere"}),
    ],
)
def test_credentials_of_the_properties_are_not_mixed_with_those_of_the_environment(
    name: str, environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch, object_store: Callable[[str], Store]
) -> None:
    """AWS refuses keys with the session token of others; a token must not go to a store that it is not for."""
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    store = object_store(name)
    with FaultProxy((LOOPBACK, store.port)) as proxy:
        io = load_file_io(store.behind(proxy.endpoint).properties)
        io.write(f"{store.root}/mixed/f", b"1", overwrite=True)
        assert io.delete_many([f"{store.root}/mixed/f"]) == []
        assert not any("other" in f"{request.headers} {request.path}" for request in proxy.requests)


@pytest.mark.parametrize("given", [{"adls.sas-token": "sv=1&sig=ours"}, {"adls.token": "ours"}])
def test_a_lent_token_is_used_where_the_environment_has_a_key(given: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", AZURE_KEY)
    monkeypatch.setenv("AZURE_STORAGE_TOKEN", "other")
    with FaultProxy((LOOPBACK, 1)) as proxy:
        proxy.spoil(Answer(403), times=None)
        io = load_file_io({**given, "adls.endpoint": f"{proxy.endpoint}/acc"})
        with pytest.raises(TerminalError):
            io.exists("abfss://lake@acc.dfs.core.windows.net/f")
        (request,) = proxy.requests
    assert "sig=ours" in request.path or dict(request.headers)["authorization"] == "Bearer ours"
    principal = {"adls.tenant-id": "t", "adls.client-id": "c", "adls.client-secret": "geheim"}
    with pytest.raises(OptionError, match="the client takes AZURE_STORAGE_ACCOUNT_KEY of the environment before it"):
        load_file_io(principal).exists("abfss://lake@acc.dfs.core.windows.net/f")


# processes


def test_after_a_fork_the_client_refuses_and_does_not_hang(object_store: Callable[[str], Store]) -> None:
    """Workers are processes of their own; a program that forks all the same gets an error."""
    store = object_store("versitygw")
    program = textwrap.dedent(f"""
        import os
        from iceberg_ops.errors import UnsupportedError
        from iceberg_ops.io.load import load_file_io
        io = load_file_io({dict(store.properties)!r})
        io.exists("s3://{BUCKET}/a")
        if (child := os.fork()) == 0:
            try:
                io.exists("s3://{BUCKET}/a")
            except UnsupportedError as e:
                os._exit(7 if "forked" in str(e) else 1)
            os._exit(0)
        raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """)
    run = subprocess.run([sys.executable, "-c", program], check=False, timeout=60, capture_output=True, text=True)
    assert run.returncode == 7, run.stderr


def test_after_a_fork_what_was_open_refuses_and_does_not_hang(object_store: Callable[[str], Store]) -> None:
    store = object_store("versitygw")
    prefix = f"{store.root}/{uuid.uuid4().hex}"
    program = textwrap.dedent(f"""
        import os
        from iceberg_ops.errors import UnsupportedError
        from iceberg_ops.io.far_files import bytes_ahead, writes_behind
        from iceberg_ops.io.load import load_file_io
        io, prefix = load_file_io({dict(store.properties)!r}), {prefix!r}
        files = [f"{{prefix}}/{{n}}" for n in range(30)]
        for file in files:
            io.write(file, b"1")
        io.write(f"{{prefix}}/large", b"1" * (2 << 20))
        reader, small, large = io.open_input(f"{{prefix}}/large"), io.open_output(f"{{prefix}}/a"), io.open_output(f"{{prefix}}/b")
        small.write(b"1")
        large.write(b"1" * (9 << 20))
        listing = io.list_prefix(prefix)
        with bytes_ahead(io, files) as near, writes_behind(io, prefix) as behind:
            near.read(files[0])
            behind.write(f"{{prefix}}/c", b"1")
            calls = [
                lambda: reader.read(1), small.close, lambda: large.write(b"1" * (9 << 20)), large.close, lambda: next(listing),
                lambda: near.read(files[1]), lambda: near.read(files[29]), lambda: behind.write(f"{{prefix}}/d", b"1"),
            ]
            if (child := os.fork()) == 0:
                refused = 0
                for call in calls:
                    try:
                        call()
                    except UnsupportedError as e:
                        refused += "forked" in str(e)
                os._exit(refused)
        raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """)
    run = subprocess.run([sys.executable, "-c", program], check=False, timeout=60, capture_output=True, text=True)
    assert run.returncode == 8, run.stderr


def test_a_process_that_is_told_the_properties_reaches_the_same_files(object_store: Callable[[str], Store]) -> None:
    store = object_store("versitygw")
    io = load_file_io(store.properties)
    io.write(f"{store.root}/told/f", b"1", overwrite=True)
    program = (
        f"from iceberg_ops.io.load import load_file_io as load; print(load({dict(io.properties)!r}).read('{store.root}/told/f'))"
    )
    run = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert run.stdout.strip() == "b'1'"


def test_a_sas_token_is_in_no_message(object_store: Callable[[str], Store]) -> None:
    store = object_store("azurite")
    with FaultProxy((LOOPBACK, store.port)) as proxy:
        endpoint = f"{proxy.endpoint}/{AZURE_ACCOUNT}"
        token = "sv=2021-08-06&sig=" + "geheim" * 5
        io = load_file_io({"adls.account-name": AZURE_ACCOUNT, "adls.endpoint": endpoint, "adls.sas-token": token})
        with pytest.raises(IcebergOpsError) as refused:
            io.read(f"{store.root}/a")
        assert any("geheim" in request.path for request in proxy.requests)
    assert "geheim" not in str(refused.value)
