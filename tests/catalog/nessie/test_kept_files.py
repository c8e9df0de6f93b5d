"""No file that was committed is deleted, because other references may need it; and many writers at once."""

from __future__ import annotations

import json
import threading
from multiprocessing import get_context

import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.actions.workers.local_runner import LocalRunner
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.catalog.nessie.nessie_catalog import NessieCatalog
from iceberg_ops.catalog.nessie.nessie_client import Conflict, Nessie, delete, put
from iceberg_ops.catalog.nessie.references import Reference
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.config.report import ActionReport
from iceberg_ops.errors import (
    GcDisabledError,
    UnsupportedError,
)
from tests.builders import IDENTIFIER, live_paths, make_table
from tests.catalog.nessie.helpers import Open, append, metadata_files
from tests.servers.nessie.server import NessieServer

pytestmark = pytest.mark.oracle


def test_no_file_that_was_committed_is_deleted_whatever_the_table_allows(
    catalog: NessieCatalog, nessie_server: NessieServer, branch: str
) -> None:
    table = make_table(catalog, properties={"write.metadata.previous-versions-max": "1"})
    for name in ("gc.enabled", "write.metadata.delete-after-commit.enabled"):
        with pytest.raises(UnsupportedError, match=f"{name}=true.*nessie-gc"):
            commit(catalog, table, UpdateProperties(updates={name: "true"}))
        with pytest.raises(UnsupportedError, match=f"{name}=true"):
            make_table(catalog, identifier=("ns", "u"), properties={name: "true"})
        assert catalog.load_table(IDENTIFIER).properties[name] == "false"
    former: list[tuple[str, set[str]]] = []
    for path in ("a", "b", "c"):
        append(catalog, path)
        former.append((nessie_server.hash(branch), live_paths(catalog.load_table(IDENTIFIER))))
    assert len(metadata_files(catalog)) == 4
    with pytest.raises(GcDisabledError):
        commit(catalog, catalog.load_table(IDENTIFIER), ExpireSnapshots(retain_last=1, older_than_ms=2**62))
    for commit_hash, paths in former:
        assert live_paths(catalog.load_table(("ns", f"t#{commit_hash}"))) == paths


def test_a_registered_table_keeps_its_files_too(catalog: NessieCatalog) -> None:
    """Its metadata allows all of it: another catalog wrote it."""
    table = make_table(catalog)
    text = json.loads(catalog.io.read(table.metadata_location))
    loose = {
        "gc.enabled": "true",
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "1",
    }
    text["properties"] |= loose
    catalog.drop_table(IDENTIFIER)
    place = table.metadata_location.replace("/00000-", "/00001-")
    catalog.io.write(place, json.dumps(text).encode())
    registered = catalog.register_table(IDENTIFIER, place)
    assert registered.properties["gc.enabled"] == catalog.load_table(IDENTIFIER).properties["gc.enabled"] == "false"
    with pytest.raises(GcDisabledError):
        commit(catalog, registered, ExpireSnapshots(retain_last=1, older_than_ms=2**62))
    before = metadata_files(catalog)
    for path in ("a", "b", "c"):
        append(catalog, path)
    assert len(metadata_files(catalog)) == len(before) + 3


def test_metadata_of_a_branch_is_no_second_catalog(
    catalog: NessieCatalog, open_catalog: Open, nessie_server: NessieServer, branch: str
) -> None:
    """It lies beside the table's own, and is in no metadata log of it. Jobs say what they refuse, and the others work."""
    make_table(catalog)
    append(catalog, "a")
    there = open_catalog(ref=nessie_server.new_branch(branch))
    for path in ("b", "c", "d"):
        append(there, path)
    append(catalog, "e")
    for job in ("expire_snapshots", "remove_orphan_files"):
        with pytest.raises(GcDisabledError, match="nessie-gc deletes files"):
            run(catalog, job)
    assert run(catalog, "rewrite_manifests").status == "committed"
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a", "e"}
    assert live_paths(there.load_table(IDENTIFIER)) == {"a", "b", "c", "d"}


def run(catalog: NessieCatalog, job: str) -> ActionReport:
    config = CatalogConfig(name="nessie", type="nessie")
    return run_job(JobSpec(job=job, table="nessie.ns.t", catalog=config), catalog=catalog, runner=LocalRunner(workers=1))


def _appends(uri: str, branch: str, worker: int, count: int) -> None:
    properties = {"uri": uri, "ref": branch, "warehouse": "/nowhere"}
    catalog = load_catalog(CatalogConfig(name="n", type="nessie", properties=properties))
    for n in range(count):
        append(catalog, f"{worker}-{n}", run_key=f"{worker}-{n}")


def test_four_processes_commit_to_one_table(catalog: NessieCatalog, nessie_server: NessieServer, branch: str) -> None:
    """25 times each: every acknowledged commit is there once, and each is one commit of Nessie's."""
    retries = {"commit.retry.num-retries": "200", "commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "50"}
    make_table(catalog, properties=retries)
    context = get_context("spawn")
    workers = [context.Process(target=_appends, args=(nessie_server.uri, branch, i, 25)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    table = catalog.load_table(IDENTIFIER)
    assert live_paths(table) == {f"{i}-{n}" for i in range(4) for n in range(25)}
    assert len(table.metadata.snapshots) == 100
    assert len(metadata_files(catalog)) == 101, "refused commits leave no metadata"
    history = nessie_server.ask("GET", f"trees/{branch}/history", params={"max-records": "500"})["logEntries"]
    assert len(history) == 102


def test_threads_share_one_catalog(catalog: NessieCatalog) -> None:
    make_table(catalog, properties={"commit.retry.num-retries": "100", "commit.retry.min-wait-ms": "1"})
    errors: list[Exception] = []

    def work(n: int) -> None:
        try:
            append(catalog, str(n))
        except Exception as e:  # noqa: BLE001 - raised in the test
            errors.append(e)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert live_paths(catalog.load_table(IDENTIFIER)) == {str(n) for n in range(8)}


def test_a_commit_made_of_a_stale_state_is_a_conflict(nessie_server: NessieServer, branch: str) -> None:
    client = Nessie("n", {"uri": nessie_server.uri, "ref": branch})
    state = client.contents(Reference(branch), [("ns",)]).state
    namespace = {"type": "NAMESPACE", "elements": ["ns"], "properties": {}}
    client.commit(state, "m", [put(("ns",), namespace)])
    with pytest.raises(Conflict) as error:
        client.commit(state, "m", [put(("ns",), namespace)])
    assert error.value.kinds == {"KEY_EXISTS"}
    with pytest.raises(Conflict) as error:
        client.commit(state, "m", [delete(("ns", "t"))])
    assert error.value.kinds == {"KEY_DOES_NOT_EXIST"}
