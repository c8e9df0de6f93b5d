import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.DataFiles;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.hive.HiveCatalog;

/** Appends of Iceberg Java to table ns.t of a Hive Metastore: its address, and how many. Each adds one file, which need not exist. */
public class HiveAppends {
  public static void main(String[] arguments) {
    Configuration conf = new Configuration(false);
    conf.set("iceberg.hive.lock-check-max-wait-ms", "200");
    HiveCatalog catalog = new HiveCatalog();
    catalog.setConf(conf);
    catalog.initialize("hms", Map.of("uri", arguments[0]));
    Table table = catalog.loadTable(TableIdentifier.of("ns", "t"));
    for (int i = 0; i < Integer.parseInt(arguments[1]); i++) {
      table.newAppend()
          .appendFile(DataFiles.builder(table.spec())
              .withPath("file:/java/" + i)
              .withFormat("parquet")
              .withFileSizeInBytes(10)
              .withRecordCount(1)
              .build())
          .commit();
    }
  }
}
