import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.StaticTableOperations;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableScan;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.io.CloseableIterable;

/**
 * Scan planning in one warm JVM, one JSON line per work. Of every task the same is looked at as on the other sides: path, partition,
 * record count, deletes, residual and, with statistics, one lower bound.
 *
 * <p>Arguments: metadata location, first id of the second half, the day of the partition filter, warm-up runs, runs.
 */
public class Plans {
  private static long looked = 0;

  public static void main(String[] args) throws Exception {
    Table table = new BaseTable(new StaticTableOperations(args[0], new HadoopFileIO(new Configuration())), "plan");
    long half = Long.parseLong(args[1]);
    int day = Integer.parseInt(args[2]);
    Map<String, Supplier<TableScan>> scans = new LinkedHashMap<>();
    scans.put("all files", table::newScan);
    scans.put("all files with statistics", () -> table.newScan().includeColumnStats());
    scans.put("filter on a column, one file left", () -> table.newScan().filter(Expressions.equal("id", half)));
    scans.put(
        "filter on a column, half of the files left", () -> table.newScan().filter(Expressions.greaterThanOrEqual("id", half)));
    scans.put("filter on a column, all files left", () -> table.newScan().filter(Expressions.greaterThanOrEqual("id", 0L)));
    scans.put("filter on a partition", () -> table.newScan().filter(Expressions.equal("day", day)));
    for (Map.Entry<String, Supplier<TableScan>> scan : scans.entrySet()) {
      boolean statistics = scan.getKey().endsWith("with statistics");
      for (int i = 0; i < Integer.parseInt(args[3]); i++) {
        planned(scan.getValue().get(), statistics);
      }
      double[] seconds = new double[Integer.parseInt(args[4])];
      int files = 0;
      for (int i = 0; i < seconds.length; i++) {
        long begun = System.nanoTime();
        files = planned(scan.getValue().get(), statistics);
        seconds[i] = (System.nanoTime() - begun) / 1e9;
      }
      double best = Arrays.stream(seconds).min().getAsDouble();
      System.out.printf("{\"work\": \"%s\", \"s\": %.6f, \"files\": %d}%n", scan.getKey(), best, files);
    }
    System.err.println(looked);
  }

  /** Plans, looks at every task, and counts them. The sum keeps the compiler from leaving out what is looked at. */
  private static int planned(TableScan scan, boolean statistics) throws Exception {
    int files = 0;
    try (CloseableIterable<FileScanTask> tasks = scan.planFiles()) {
      for (FileScanTask task : tasks) {
        DataFile file = task.file();
        looked += file.location().length() + file.partition().get(0, Integer.class) + file.recordCount();
        looked += task.deletes().size() + System.identityHashCode(task.residual());
        looked += statistics ? file.lowerBounds().get(1).remaining() : 0;
        files++;
      }
    }
    return files;
  }
}
