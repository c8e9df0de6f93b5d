"""Which HDFS is meant: the settings of Hadoop, and a client that is not installed."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from iceberg_ops.errors import OptionError, RuntimeMissingError
from iceberg_ops.io import resolving
from iceberg_ops.io.hadoop_settings import HadoopSettings
from iceberg_ops.io.load import load_file_io
from tests.io.test_hdfs import Storage, _path
from tests.servers.stores import Store


@pytest.fixture(scope="module")
def store(object_store: Callable[[str], Store]) -> Store:
    return object_store("hdfs")


@pytest.fixture
def storage(store: Store) -> Storage:
    return load_file_io(store.properties), f"{store.root}/{uuid.uuid4().hex}"


def _settings(folder: Path, name: str, values: dict[str, str]) -> None:
    properties = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in values.items())
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f'<?xml version="1.0"?><configuration>{properties}</configuration>')


def test_name_services_and_mount_tables_are_those_of_hadoop_conf_dir(
    storage: Storage, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    io, prefix = storage
    io.write(f"{prefix}/f", b"1")
    address = store.root.removeprefix("hdfs://")
    services = {
        "dfs.ha.namenodes.lake": "gone,here",
        "dfs.namenode.rpc-address.lake.gone": "127.0.0.1:1",
        "dfs.namenode.rpc-address.lake.here": address,
    }
    mounts = {
        "fs.defaultFS": "hdfs://lake",
        "fs.viewfs.mounttable.all.link./mounted": f"hdfs://{address}{_path(prefix)}",
        "fs.viewfs.mounttable.all.linkFallback": f"hdfs://{address}/",
    }
    _settings(tmp_path, "hdfs-site.xml", services)
    _settings(tmp_path, "core-site.xml", mounts)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    here = load_file_io()
    for spelled in (f"hdfs://lake{_path(prefix)}/f", f"hdfs:{_path(prefix)}/f", "viewfs://all/mounted/f"):
        assert here.read(spelled) == b"1"
    monkeypatch.delenv("HADOOP_CONF_DIR")
    assert load_file_io({"hdfs.conf-dir": str(tmp_path)}).read(f"hdfs://lake{_path(prefix)}/f") == b"1"


def test_another_folder_of_settings_takes_the_place_of_hadoop_conf_dir(
    storage: Storage, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client reads HADOOP_CONF_DIR by itself, and what it has there would be mixed with the other."""
    io, prefix = storage
    io.write(f"{prefix}/f", b"1")
    elsewhere = {"fs.viewfs.mounttable.all.link./there": "hdfs://127.0.0.1:1/", "hadoop.security.authentication": "kerberos"}
    _settings(tmp_path / "environment", "core-site.xml", elsewhere)
    _settings(tmp_path / "given", "core-site.xml", {"fs.viewfs.mounttable.all.linkFallback": f"{store.root}{_path(prefix)}"})
    io.write(f"{prefix}/there/f", b"2")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "environment"))
    here = load_file_io({"hdfs.conf-dir": str(tmp_path / "given")})
    assert (here.read("viewfs://all/f"), here.read("viewfs://all/there/f")) == (b"1", b"2")


def test_settings_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "core-site.xml").write_text("<configuration>")
    with pytest.raises(OptionError, match=r"Hadoop's settings .*core-site\.xml: cannot be read"):
        load_file_io({"io-impl": "hdfs", "hdfs.conf-dir": str(tmp_path)})
    with pytest.raises(OptionError, match=r"hdfs\.answer-timeout-s 'soon': must be a whole number"):
        load_file_io({"hdfs.answer-timeout-s": "soon"}).read("hdfs://127.0.0.1:1/f")
    with pytest.raises(OptionError, match="the client of HDFS refuses the address or the settings"):
        load_file_io({"hadoop.fs.viewfs.mounttable.all.link./a": "hdfs://127.0.0.1:1/"}).read("viewfs://all/a")


def test_a_client_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolving.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(RuntimeMissingError, match=r"pip install 'iceberg-ops\[hdfs\]'"):
        load_file_io().read("hdfs://host/key")


def _including(folder: Path, include: str) -> HadoopSettings:
    one = "<property><name>one</name><value>before</value></property>"
    (folder / "core-site.xml").write_text(
        f'<configuration xmlns:xi="http://www.w3.org/2001/XInclude">{one}{include}</configuration>'
    )
    return HadoopSettings.of({"hdfs.conf-dir": str(folder)})


def test_a_mount_table_in_a_file_of_its_own_is_read(tmp_path: Path) -> None:
    include = '<xi:include href="mountTable.xml"/>'
    _settings(tmp_path, "mountTable.xml", {"one": "included", "fs.viewfs.mounttable.all.link./wh": "hdfs://nn/wh"})
    found = _including(tmp_path, include)
    assert (found.values["one"], found.mounts("all")) == ("included", {"/wh": "hdfs://nn/wh"})
    assert _including(tmp_path, '<include href="mountTable.xml"/>').values == found.values, "Hadoop ignores its namespace"
    _settings(tmp_path, "mountTable.xml", {"fs.viewfs.mounttable.all.link./wh": "hdfs://nn/another"})
    assert _including(tmp_path, include).mounts("all") == {"/wh": "hdfs://nn/another"}, "as it is now"
    (tmp_path / "mountTable.xml").rename(tmp_path / "deep.xml")
    (tmp_path / "mountTable.xml").write_text(
        '<configuration xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include href="deep.xml"/></configuration>'
    )
    assert _including(tmp_path, include).mounts("all") == {"/wh": "hdfs://nn/another"}


@pytest.mark.parametrize(
    ("namespace", "setting"),
    [
        (' xmlns="http://www.w3.org/2001/XInclude"', "<property><name> {} </name><value>{}</value></property>"),
        ("", '<property name="{}" value="{}"/>'),
        ("", '<include href="file://{folder}/another%20file.xml"/>'),
        ("", '<include href="file:{folder}/another%20file.xml"/>'),
    ],
    ids=["in a namespace", "as attributes", "in a file of a URI", "in a file of a short URI"],
)
def test_a_setting_is_read_in_every_form_that_hadoop_reads(tmp_path: Path, namespace: str, setting: str) -> None:
    """One that is not read is no error: a file's place in HDFS would not be known."""
    given = ("fs.viewfs.mounttable.all.link./wh", "hdfs://nn/wh")
    _settings(tmp_path, "another file.xml", dict([given]))
    text = f"<configuration{namespace}>{setting.format(*given, folder=tmp_path)}</configuration>"
    (tmp_path / "core-site.xml").write_text(text)
    assert HadoopSettings.of({"hdfs.conf-dir": str(tmp_path)}).mounts("all") == {"/wh": "hdfs://nn/wh"}


def test_a_file_that_is_to_be_included_and_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"it includes .*gone\.xml, which is missing"):
        _including(tmp_path, '<xi:include href="gone.xml"/>')
    fallback = "<xi:fallback><property><name>one</name><value>fallback</value></property></xi:fallback>"
    assert _including(tmp_path, f'<xi:include href="gone.xml">{fallback}</xi:include>').values["one"] == "fallback"
    with pytest.raises(OptionError, match="it includes itself"):
        _including(tmp_path, '<xi:include href="core-site.xml"/>')


def test_the_old_name_of_the_default_file_system_counts_where_the_present_one_is_not_set(tmp_path: Path) -> None:
    """Hadoop still reads it: without it a warehouse without scheme would be on this machine."""
    _settings(tmp_path, "core-site.xml", {"fs.default.name": "hdfs://old:8020"})
    of_files = {"hdfs.conf-dir": str(tmp_path)}
    assert HadoopSettings.of(of_files).default == ("hdfs", "old:8020")
    assert HadoopSettings.of({**of_files, "hadoop.fs.defaultFS": "hdfs://new"}).default == ("hdfs", "new")
    _settings(tmp_path, "core-site.xml", {"fs.default.name": "hdfs://old:8020", "fs.defaultFS": "hdfs://present"})
    assert HadoopSettings.of(of_files).default == ("hdfs", "present")
    assert HadoopSettings.of({**of_files, "hadoop.fs.default.name": "hdfs://given"}).default == ("hdfs", "given")
