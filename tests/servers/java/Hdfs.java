import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** A small HDFS on the loopback address: {@code Hdfs FOLDER NAME_NODE_PORT HTTP_PORT READY [format]}. It makes the file READY. */
class Hdfs {
  public static void main(String[] args) throws Exception {
    Configuration settings = new Configuration();
    settings.set("dfs.namenode.rpc-bind-host", "127.0.0.1");
    settings.set("dfs.datanode.hostname", "127.0.0.1");
    settings.set("dfs.replication", "2");
    // Of two copies one is enough, so that a client that closes a file does not wait half a second for the report of a data node.
    settings.set("dfs.namenode.file.close.num-committed-allowed", "1");
    settings.set("dfs.namenode.safemode.extension", "0");
    MiniDFSCluster cluster = new MiniDFSCluster.Builder(settings, new File(args[0]))
        .nameNodePort(Integer.parseInt(args[1]))
        .nameNodeHttpPort(Integer.parseInt(args[2]))
        .numDataNodes(2)
        .format(args.length > 4)
        .build();
    cluster.waitActive();
    new File(args[3]).createNewFile();
    Thread.sleep(Long.MAX_VALUE);
  }
}
