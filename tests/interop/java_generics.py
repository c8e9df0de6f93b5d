"""Iceberg Java's own readers and writers ("generics"), for features without a Spark type or statement: times, equality deletes.

Part of ``java_session``: it runs in the process of the JVM. A value is ``[kind, text]`` (see ``VALUES``) or null.
"""

from __future__ import annotations

from typing import Any

VALUES = {
    "int": ("java.lang.Integer", "parseInt"),
    "string": None,
    "time": ("java.time.LocalTime", "parse"),
    "timestamp": ("java.time.LocalDateTime", "parse"),
    "timestamptz": ("java.time.OffsetDateTime", "parse"),
}


def read(jvm: Any, table: Any) -> list[str]:
    """The rows' texts, as Java's records have them."""
    rows = jvm.org.apache.iceberg.data.IcebergGenerics.read(table).build()
    found, each = [], rows.iterator()
    while each.hasNext():
        found.append(each.next().toString())
    rows.close()
    return found


def append(jvm: Any, table: Any, format_: str, rows: list[dict[str, Any]]) -> None:
    """Append rows as one data file of that format."""
    kind = jvm.org.apache.iceberg.FileFormat.fromString(format_)
    target = table.io().newOutputFile(f"{table.location()}/data/{jvm.java.util.UUID.randomUUID()}.{format_}")
    appender = jvm.org.apache.iceberg.data.GenericAppenderFactory(table.schema()).newAppender(target, kind)
    for row in rows:
        appender.add(_record(jvm, table.schema(), row))
    appender.close()
    made = jvm.org.apache.iceberg.DataFiles.builder(table.spec()).withPath(target.location()).withFormat(format_.upper())
    made = made.withMetrics(appender.metrics()).withFileSizeInBytes(appender.length()).build()
    table.newAppend().appendFile(made).commit()


def delete(jvm: Any, gateway: Any, table: Any, format_: str, columns: list[str], rows: list[dict[str, Any]]) -> None:
    """Add an equality delete file of that format over those columns."""
    schema = table.schema().select(columns)
    ids = gateway.new_array(jvm.int, len(columns))
    for i, name in enumerate(columns):
        ids[i] = table.schema().findField(name).fieldId()
    factory = jvm.org.apache.iceberg.data.GenericAppenderFactory(table.schema(), table.spec(), ids, schema, None)
    path = f"{table.location()}/data/{jvm.java.util.UUID.randomUUID()}.{format_}"
    target = jvm.org.apache.iceberg.encryption.EncryptedFiles.plainAsEncryptedOutput(table.io().newOutputFile(path))
    writer = factory.newEqDeleteWriter(target, jvm.org.apache.iceberg.FileFormat.fromString(format_), None)
    for row in rows:
        writer.write(_record(jvm, schema, row))
    writer.close()
    table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()


def _record(jvm: Any, schema: Any, row: dict[str, Any]) -> Any:
    record = jvm.org.apache.iceberg.data.GenericRecord.create(schema)
    for name, value in row.items():
        record.setField(name, None if value is None else _value(jvm, *value))
    return record


def _value(jvm: Any, kind: str, text: str) -> Any:
    if VALUES[kind] is None:
        return text
    holder, function = VALUES[kind]
    found = jvm
    for part in holder.split("."):
        found = getattr(found, part)
    return getattr(found, function)(text)
