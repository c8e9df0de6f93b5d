"""The environment variables that this package reads, besides those of others (AWS, Hadoop, Spark, Airflow).

A variable with almost such a name, such as ``ICEBERG_OPS_CATALOG``, is an error while the one that is meant is not set: without it
a command would work on the catalogs of the working folder, or a DAG with the sample policy.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from iceberg_ops.config.near_names import near_names
from iceberg_ops.errors import OptionError

_PREFIX = "ICEBERG_OPS_"
_LIKENESS = 0.65
_OF_KUBERNETES = "_PORT"
"""Kubernetes sets such a variable for each service, ``CATALOG_PORT`` after the prefix for ``iceberg-ops-catalog``."""
VARIABLES = (
    *("ICEBERG_OPS_CATALOGS", "ICEBERG_OPS_DRIVER_MEMORY", "ICEBERG_OPS_JOBS", "ICEBERG_OPS_JOBS_KEEP", "ICEBERG_OPS_POLICY"),
    *("ICEBERG_OPS_SPARK_APPLICATION", "ICEBERG_OPS_SPARK_LOG_LEVEL", "ICEBERG_OPS_SPARK_MASTER"),
)


def variable(name: str, environment: Mapping[str, str] = os.environ) -> str:
    """The value of one of ``VARIABLES``; empty if it is not set. Raises OptionError if one of a similar name is set instead."""
    value = environment.get(name, "")
    if not value and (other := next((given for given in environment if _means(given, name)), None)):
        raise OptionError(
            f"the environment has {other}, which nothing reads (did you mean {name}?): correct its name; or set {name}, too, if "
            f"{other} is yours"
        )
    return value


def _means(given: str, name: str) -> bool:
    """Whether ``given`` resembles ``name`` most, and what follows a first word that both have is also alike: ``SPARK_HOME`` is not
    meant to be ``SPARK_MASTER``."""
    if not given.upper().startswith(_PREFIX) or given in VARIABLES or given.endswith(_OF_KUBERNETES):
        return False
    theirs, ours = given[len(_PREFIX) :], name.removeprefix(_PREFIX)
    known = [variable.removeprefix(_PREFIX) for variable in VARIABLES]
    if near_names(theirs, known, likeness=_LIKENESS)[:1] != [ours]:
        return False
    (first, _, rest), (same, _, meant) = theirs.upper().partition("_"), ours.partition("_")
    return first != same or not (rest and meant) or bool(near_names(rest, [meant], likeness=_LIKENESS))
