import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.jdbc.JdbcCatalog;

/**
 * Iceberg Java's core API on a table in a store, in one warm JVM: a line "plan NAME" or "expire NAME" of the input is one work on a
 * table of the namespace db, and gives one line of JSON.
 *
 * <p>Arguments: properties of the catalog, as key=value.
 */
public class Stores {
  public static void main(String[] args) throws Exception {
    Map<String, String> properties = new HashMap<>();
    for (String argument : args) {
      int at = argument.indexOf('=');
      properties.put(argument.substring(0, at), argument.substring(at + 1));
    }
    JdbcCatalog catalog = new JdbcCatalog();
    catalog.setConf(new Configuration());
    catalog.initialize("bench", properties);
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      String[] words = line.split(" ");
      TableIdentifier name = TableIdentifier.of("db", words[1]);
      long begun = System.nanoTime();
      long found = words[0].equals("plan") ? planned(catalog.loadTable(name)) : expired(catalog.loadTable(name));
      System.out.printf("{\"s\": %.4f, \"found\": %d}%n", (System.nanoTime() - begun) / 1e9, found);
      System.out.flush();
    }
  }

  /** Files of a scan of everything. */
  private static long planned(Table table) throws Exception {
    long files = 0;
    try (CloseableIterable<FileScanTask> tasks = table.newScan().planFiles()) {
      for (FileScanTask task : tasks) {
        files += task.file().location().isEmpty() ? 0 : 1;
      }
    }
    return files;
  }

  /** Snapshots that are left. */
  private static long expired(Table table) {
    table.expireSnapshots().expireOlderThan(System.currentTimeMillis() + 1).retainLast(1).commit();
    long left = 0;
    for (Object snapshot : table.snapshots()) {
      left++;
    }
    return left;
  }
}
