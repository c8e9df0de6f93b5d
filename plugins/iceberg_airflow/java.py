"""The Java that Spark would start: found, and new enough.

Imports nothing of Airflow, so that a script can ask before anything is started.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from iceberg_ops.errors import RuntimeMissingError

OLDEST_JAVA = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def find_java() -> str:
    """Version and place of the Java that Spark finds (JAVA_HOME, else the path). Raises RuntimeMissingError below 17."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).is_file():
        place = f"JAVA_HOME={home} has no bin/java" if home else "no java on the PATH"
        raise RuntimeMissingError(f"Java {OLDEST_JAVA} or newer is needed by Spark: {place}")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = _VERSION.search(said.stderr + said.stdout)
    if found is None or int(found.group(1)) < OLDEST_JAVA:
        version = found.group(1) if found else "unknown"
        raise RuntimeMissingError(f"Java {OLDEST_JAVA} or newer is needed by Spark: {java} is version {version}")
    return f"Java {found.group(1)} at {java}"
