// What benchmarks/commit.py measures, done by Iceberg Java's core API on the same storage and the same kind of catalog.
//
// Arguments: folder, location of the large table's metadata, appends, files, percents ("5,5s,50,100": s is scattered), repeats.
// Every work runs once to warm up and then `repeats` times; one JSON line each, of the fastest run. Runs as a source file.

import java.io.File;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataFiles;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.RewriteFiles;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.data.parquet.GenericParquetWriter;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.parquet.Parquet;
import org.apache.iceberg.types.Types;

public class Commits {
  private static final Schema SCHEMA = new Schema(Types.NestedField.optional(1, "id", Types.LongType.get()));

  private final JdbcCatalog catalog = new JdbcCatalog();
  private final String folder;
  private final int repeats;

  private Commits(String folder, int repeats) {
    this.folder = folder;
    this.repeats = repeats;
    catalog.setConf(new org.apache.hadoop.conf.Configuration());
    Map<String, String> properties = new HashMap<>();
    properties.put("uri", "jdbc:sqlite:file:" + folder + "/catalog.db");
    properties.put("jdbc.schema-version", "V1");
    properties.put("warehouse", folder);
    catalog.initialize("bench", properties);
    catalog.createNamespace(Namespace.of("db"));
  }

  public static void main(String[] args) throws Exception {
    Commits commits = new Commits(args[0], Integer.parseInt(args[5]));
    commits.appendsAndExpiry(Integer.parseInt(args[2]));
    for (String kind : args[4].split(",")) {
      commits.replace(args[1], kind, Integer.parseInt(args[3]));
    }
  }

  private void appendsAndExpiry(int appends) throws Exception {
    Measure appending = new Measure("appends");
    Measure expiring = new Measure("expiry");
    for (int run = 0; run <= repeats; run++) {
      Table table = catalog.createTable(TableIdentifier.of("db", "small" + run), SCHEMA, PartitionSpec.unpartitioned());
      String metadata = table.location().replaceFirst("^file:", "") + "/metadata";
      appending.start(metadata);
      for (int n = 0; n < appends; n++) {
        table.newAppend().appendFile(oneRow(table, n)).commit();
      }
      appending.stop(run);
      expiring.start(metadata);
      table.expireSnapshots().expireOlderThan(System.currentTimeMillis() + 1).retainLast(1).commit();
      expiring.stop(run);
    }
    appending.print();
    expiring.print();
  }

  private static DataFile oneRow(Table table, long id) throws Exception {
    Record row = GenericRecord.create(SCHEMA);
    row.setField("id", id);
    String path = table.locationProvider().newDataLocation("0-" + id + "-" + System.nanoTime() + ".parquet");
    DataWriter<Record> writer =
        Parquet.writeData(table.io().newOutputFile(path))
            .forTable(table)
            .createWriterFunc(GenericParquetWriter::create)
            .overwrite()
            .build();
    try (writer) {
      writer.write(row);
    }
    return writer.toDataFile();
  }

  private void replace(String location, String kind, int files) throws Exception {
    boolean scattered = kind.endsWith("s");
    int percent = Integer.parseInt(scattered ? kind.substring(0, kind.length() - 1) : kind);
    Measure replacing = new Measure("replace " + kind);
    for (int run = 0; run <= repeats; run++) {
      TableIdentifier name = TableIdentifier.of("db", "large_" + kind + "_" + run);
      Table table = catalog.registerTable(name, location);
      List<DataFile> removed = chosen(table, percent, scattered, files);
      List<DataFile> added = new ArrayList<>();
      for (int at = 0; at < removed.size(); at += 10) {
        added.add(joined(table, removed.subList(at, Math.min(at + 10, removed.size())), kind + run));
      }
      replacing.start(table.location().replaceFirst("^file:", "") + "/metadata");
      RewriteFiles rewrite = table.newRewrite();
      removed.forEach(rewrite::deleteFile);
      added.forEach(rewrite::addFile);
      rewrite.commit();
      replacing.stop(run);
      catalog.dropTable(name, false);
    }
    replacing.print();
  }

  /** In the order of their names, which is the order of their days: the first ones, or every so many. */
  private static List<DataFile> chosen(Table table, int percent, boolean scattered, int files) throws Exception {
    List<DataFile> all = new ArrayList<>();
    try (CloseableIterable<FileScanTask> tasks = table.newScan().includeColumnStats().planFiles()) {
      tasks.forEach(task -> all.add(task.file()));
    }
    all.sort((a, b) -> a.location().compareTo(b.location()));
    if (!scattered) {
      return all.subList(0, files * percent / 100);
    }
    List<DataFile> found = new ArrayList<>();
    for (int at = 0; at < all.size(); at += 100 / percent) {
      found.add(all.get(at));
    }
    return found;
  }

  private static DataFile joined(Table table, List<DataFile> files, String run) {
    long rows = files.stream().mapToLong(DataFile::recordCount).sum();
    return DataFiles.builder(table.spec())
        .copy(files.get(0))
        .withPath(files.get(0).location() + "-" + run + ".parquet")
        .withRecordCount(rows)
        .build();
  }

  /** Seconds by the clock and of computing of one work, and the bytes that it wrote below a folder: those of its fastest run. */
  private static final class Measure {
    private final String name;
    private String folder;
    private long begun;
    private long computed;
    private long held;
    private double seconds = Double.MAX_VALUE;
    private double cpu = Double.MAX_VALUE;
    private long bytes;

    Measure(String name) {
      this.name = name;
    }

    void start(String metadata) {
      System.gc();
      folder = metadata;
      held = size(folder);
      computed = cpuNanos();
      begun = System.nanoTime();
    }

    void stop(int run) {
      double took = (System.nanoTime() - begun) / 1e9;
      if (run > 0) {
        seconds = Math.min(seconds, took);
        cpu = Math.min(cpu, (cpuNanos() - computed) / 1e9);
        bytes = size(folder) - held;
      }
    }

    void print() {
      System.out.printf("{\"work\": \"%s\", \"s\": %.4f, \"cpu_s\": %.4f, \"bytes\": %d}%n", name, seconds, cpu, bytes);
      System.out.flush();
    }

    private static long cpuNanos() {
      return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    private static long size(String folder) {
      File[] files = new File(folder).listFiles((dir, name) -> !name.endsWith(".crc"));
      long total = 0;
      for (File file : files == null ? new File[0] : files) {
        total += file.length();
      }
      return total;
    }
  }
}
