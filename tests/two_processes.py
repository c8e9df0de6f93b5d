"""How ``make test`` divides the suite between two processes: the slowest files come first, so that both end at the same time.

``SECONDS`` is CPU time, on one core, of files that take fifteen or more. Only the order depends on it, so it is corrected by hand
when a file's time has changed (``--durations=0`` shows it).
"""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadFileScheduling

SERVERS = "servers"
"""The share of files that ask for a server of ``tests.servers`` by a fixture of the session: each is started once for them, and a
JVM with a metastore, Nessie or HDFS takes five seconds of CPU time or more."""
JAVA = "java"
"""The share of the other files that ask Iceberg Java in Spark. Together with those above they would be half of the suite: that a
few of those start it once more takes less."""
OF_SERVERS = (
    "tests/catalog/",
    "tests/interop/test_at_once.py",
    "tests/interop/test_glue.py",
    "tests/interop/test_hadoop_catalog.py",
    "tests/interop/test_hive.py",
    "tests/interop/test_later_hive.py",
    "tests/interop/test_nessie.py",
    "tests/interop/test_postgresql.py",
    "tests/interop/test_rest_with_java.py",
    "tests/io/",
    "tests/actions/test_requests_counted.py",
    "tests/cli/test_object_stores.py",
    "tests/cli/test_rest_catalog.py",
    "tests/docs/test_catalogs.py",
    "tests/docs/test_stores_page.py",
    "tests/torture/test_far_store.py",
)
"""Files and folders of ``SERVERS``."""
OF_JAVA = "tests/interop/"
"""The folder of ``JAVA``."""
SECONDS = {
    "torture/test_killed_database": 120,
    "spark/test_cluster": 80,
    "interop/test_row_operations_like_java": 80,
    "spark/test_cluster_torture": 55,
    "demo/test_oracles": 55,
    "commit/test_conflicts": 50,
    "catalog/test_conformance": 50,
    "torture/test_one_between": 45,
    "spark/test_killed_jvm": 45,
    "interop/test_at_once": 40,
    "interop/test_hadoop_catalog": 15,
    "catalog/test_requirements_names_and_sizes": 30,
    "spark/test_where_like_spark": 45,
    "interop/test_we_read_java": 45,
    "spark/test_row_operations": 45,
    "torture/test_kill_nine": 45,
    "spark/test_subqueries": 40,
    "generated/test_imported_files": 40,
    "spark/test_local_like_spark": 35,
    "torture/test_exceptions_everywhere": 35,
    "actions/test_worker_processes": 35,
    "interop/test_java_reads_ours": 35,
    "spark/test_job_session": 30,
    "torture/test_interleaved_steps": 30,
    "torture/test_eight_processes": 30,
    "interop/test_changelog": 30,
    "spark/test_typed_text": 30,
    "spark/test_command_ends": 25,
    "spark/test_names_and_folders": 25,
    "interop/test_glue": 25,
    "spark/test_native_names": 25,
    "interop/test_java_reads_our_jobs": 25,
    "spark/test_sources_evaluated_once": 25,
    "spark/test_upsert": 20,
    "spark/test_odd_column_names": 20,
    "cli/test_lost_output": 20,
    "spark/test_ingest_direct": 20,
    "torture/test_far_store": 20,
    "catalog/test_filesystem_every_step": 20,
    "spark/test_source_files": 20,
    "spark/test_row_lineage": 20,
    "cli/test_spark_lane": 15,
    "spark/test_terms_like_spark": 15,
    "cli/test_light_commands": 15,
    "commit/test_two_at_once": 15,
    "docs/test_catalogs": 15,
    "spark/test_rows_read": 15,
    "catalog/test_filesystem_on_stores": 15,
    "spark/test_text_casts_like_spark": 15,
    "generated/test_text_sources": 15,
    "actions/test_compaction_under_deletes": 15,
    "generated/test_written_files": 15,
    "spark/test_source_folders": 15,
}
"""By file of ``tests``, without its ending."""
BY_MARK = {"slow": 14, "java": 12, "spark": 10, "airflow": 8}
"""What a file takes that ``SECONDS`` does not know, by the marks of its tests."""


def longest_first(items: list[pytest.Item]) -> None:
    """Sort tests by what their shares take; shares of one length keep their order."""
    files: dict[str, int] = {}
    for item in items:
        marked = max((seconds for mark, seconds in BY_MARK.items() if item.get_closest_marker(mark)), default=0)
        file = _file(item.nodeid)
        files[file] = SECONDS.get(file.removeprefix("tests/").removesuffix(".py"), max(files.get(file, 0), marked))
    shares: dict[str, int] = {}
    for file, seconds in files.items():
        shares[share(file)] = shares.get(share(file), 0) + seconds
    items.sort(key=lambda item: -shares[share(_file(item.nodeid))])


def share(file: str) -> str:
    """What is given to one process as a whole."""
    if file.startswith(OF_SERVERS):
        return SERVERS
    return JAVA if file.startswith(OF_JAVA) else file


class Shares(LoadFileScheduling):
    """A process takes the next share when it is nearly done with one."""

    def _split_scope(self, nodeid: str) -> str:
        return share(_file(nodeid))


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]
