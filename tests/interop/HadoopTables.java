import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.data.parquet.GenericParquetWriter;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.hadoop.HadoopCatalog;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.parquet.Parquet;
import org.apache.iceberg.types.Types;

/**
 * Iceberg Java's HadoopCatalog without Spark. One command on each line of standard input, its words separated by tabs, the first
 * two are the verb and the warehouse; one answer on each line of standard output. Tables have the columns id and who.
 */
class HadoopTables {
  private static final Schema SCHEMA = new Schema(
      Types.NestedField.optional(1, "id", Types.LongType.get()), Types.NestedField.optional(2, "who", Types.StringType.get()));
  private static final Map<String, HadoopCatalog> CATALOGS = new HashMap<>();
  private static final TableIdentifier NAME = TableIdentifier.of("ns", "t");

  public static void main(String[] arguments) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String answer;
      try {
        answer = "ok\t" + answer(line.split("\t"));
      } catch (Exception e) {
        answer = "error\t" + e.getClass().getSimpleName() + ": " + String.valueOf(e.getMessage()).replace('\n', ' ');
      }
      System.out.println(answer);
    }
  }

  private static String answer(String[] words) throws Exception {
    HadoopCatalog catalog = CATALOGS.computeIfAbsent(words[1], place -> new HadoopCatalog(settings(), place));
    switch (words[0]) {
      case "create":
        Map<String, String> properties = new HashMap<>();
        for (int i = 2; i < words.length; i++) {
          properties.put(words[i].split("=", 2)[0], words[i].split("=", 2)[1]);
        }
        return at(catalog.createTable(NAME, SCHEMA, PartitionSpec.unpartitioned(), properties));
      case "append": // ids from words[2] on, words[3] of them, by words[4]; each until it is committed
        long first = Long.parseLong(words[2]);
        for (long id = first; id < first + Long.parseLong(words[3]); id++) {
          append(catalog, id, words[4]);
        }
        return at(catalog.loadTable(NAME));
      case "load":
        return at(catalog.loadTable(NAME));
      case "rows":
        List<String> found = new ArrayList<>();
        try (CloseableIterable<Record> rows = IcebergGenerics.read(catalog.loadTable(NAME)).build()) {
          rows.forEach(row -> found.add(row.getField("id") + " " + row.getField("who")));
        }
        return String.join("\t", found);
      case "drop":
        return String.valueOf(catalog.dropTable(NAME, true));
      case "namespaces":
        List<String> names = new ArrayList<>();
        catalog.listNamespaces().forEach(namespace -> names.add(namespace.toString()));
        return String.join("\t", names);
      case "namespace":
        catalog.createNamespace(Namespace.of(words[2]));
        return "";
      case "drop-namespace":
        return String.valueOf(catalog.dropNamespace(Namespace.of(words[2])));
      case "rename": // what a commit of the catalog ends with
        FileSystem files = new Path(words[1]).getFileSystem(settings());
        return String.valueOf(files.rename(new Path(words[2]), new Path(words[3])));
      case "tables":
        return catalog.listTables(Namespace.of("ns")).toString();
      default:
        throw new IllegalArgumentException(words[0]);
    }
  }

  /** Hadoop's own files of this machine: Hive's jars, which Spark has, put others in their place, whose renames look first. */
  private static Configuration settings() {
    Configuration settings = new Configuration();
    settings.set("fs.file.impl", "org.apache.hadoop.fs.LocalFileSystem");
    return settings;
  }

  private static void append(HadoopCatalog catalog, long id, String who) throws Exception {
    while (true) {
      Table table = catalog.loadTable(NAME);
      try {
        table.newAppend().appendFile(written(table, id, who)).commit();
        return;
      } catch (CommitFailedException e) {
        // Retries are used up: once more, with a file of its own, because the commit deleted nothing of ours.
      }
    }
  }

  private static DataFile written(Table table, long id, String who) throws Exception {
    DataWriter<Record> writer = Parquet
        .writeData(table.io().newOutputFile(table.location() + "/data/" + UUID.randomUUID() + ".parquet"))
        .schema(table.schema()).createWriterFunc(GenericParquetWriter::create).withSpec(PartitionSpec.unpartitioned()).build();
    try (writer) {
      GenericRecord row = GenericRecord.create(table.schema());
      row.setField("id", id);
      row.setField("who", who);
      writer.write(row);
    }
    return writer.toDataFile();
  }

  private static String at(Table table) {
    int snapshots = 0;
    for (Object ignored : table.snapshots()) {
      snapshots++;
    }
    return ((BaseTable) table).operations().current().metadataFileLocation() + "\t" + snapshots;
  }
}
