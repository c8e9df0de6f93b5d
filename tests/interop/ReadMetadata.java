import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.iceberg.TableMetadataParser;

/** Reads metadata files as Iceberg Java does, one a line of the file it is given; prints "line number: why" for those it cannot read. */
public class ReadMetadata {
  public static void main(String[] arguments) throws Exception {
    int line = 0;
    for (String location : Files.readAllLines(Path.of(arguments[0]))) {
      try {
        TableMetadataParser.fromJson(location, Files.readString(Path.of(location)));
      } catch (Throwable e) {
        System.out.println(line + "\t" + String.valueOf(e).replace('\n', ' '));
      }
      line++;
    }
    System.out.println("read " + line);
  }
}
