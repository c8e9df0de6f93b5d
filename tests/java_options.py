"""Options of every JVM that tests start. It plans thousands of small queries and computes next to nothing."""

from __future__ import annotations

from pathlib import Path

JAVA_OPTIONS = "JDK_JAVA_OPTIONS"
"""The variable that ``java`` reads."""
ARCHIVE = Path(__file__).parents[1] / "build" / "spark-classes.jsa"
"""Made by ``make test`` (``tests.spark.archived_classes``). A JVM that is not the one that made it does without."""
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -XX:MetaspaceSize=256m"
"""The optimising compiler takes more than it gives (two fifths of the CPU time), and nothing is freed by looking for classes to
unload. Without that compiler a JVM keeps 48 MiB of compiled code, which Spark fills after a hundred statements: it then looks all
the time for code to drop, and compiles it again."""


def java_options() -> str:
    """Without words of the JVM's own, which would go to standard output."""
    return f'{SHORT_LIVED} -Xlog:disable "-XX:SharedArchiveFile={ARCHIVE}"' if ARCHIVE.exists() else SHORT_LIVED
