import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.MiniDFSNNTopology;
import org.apache.hadoop.hdfs.protocol.HdfsConstants.SafeModeAction;

/**
 * A small HDFS with two name nodes, on the loopback address: {@code HdfsPair FOLDER PORT PORT HTTP_PORT HTTP_PORT CONTROL_PORT}. The first
 * is active. A connection to the control port gives one order, and gets the answer "done" or an error.
 */
class HdfsPair {
  private static MiniDFSCluster cluster;

  public static void main(String[] args) throws Exception {
    Configuration settings = new Configuration();
    settings.set("dfs.namenode.rpc-bind-host", "127.0.0.1");
    settings.set("dfs.datanode.hostname", "127.0.0.1");
    settings.set("dfs.replication", "1");
    settings.set("dfs.namenode.safemode.extension", "0");
    settings.set("dfs.ha.tail-edits.period", "1");
    settings.set("dfs.heartbeat.interval", "1");
    MiniDFSNNTopology.NSConf pair = new MiniDFSNNTopology.NSConf("lake");
    for (int i = 0; i < 2; i++) {
      pair.addNN(new MiniDFSNNTopology.NNConf("nn" + (i + 1))
          .setIpcPort(Integer.parseInt(args[1 + i]))
          .setHttpPort(Integer.parseInt(args[3 + i])));
    }
    cluster = new MiniDFSCluster.Builder(settings, new File(args[0]))
        .nnTopology(new MiniDFSNNTopology().addNameservice(pair))
        .numDataNodes(1)
        .build();
    cluster.waitActive();
    cluster.transitionToActive(0);
    try (ServerSocket orders = new ServerSocket(Integer.parseInt(args[5]), 50, InetAddress.getLoopbackAddress())) {
      while (true) {
        try (Socket order = orders.accept()) {
          String line = new BufferedReader(new InputStreamReader(order.getInputStream())).readLine();
          PrintWriter answer = new PrintWriter(order.getOutputStream(), true);
          try {
            if (line != null) {
              obey(line.split(" "));
            }
            answer.println("done");
          } catch (Exception e) {
            answer.println(e.toString().split("\n")[0]);
          }
        } catch (IOException gone) {
          System.err.println(gone);
        }
      }
    }
  }

  private static void obey(String[] order) throws Exception {
    int node = Integer.parseInt(order[1]);
    switch (order[0]) {
      case "active" -> cluster.transitionToActive(node);
      case "standby" -> cluster.transitionToStandby(node);
      case "stop" -> cluster.shutdownNameNode(node);
      case "start" -> cluster.restartNameNode(node, false);
      case "safe" -> cluster.getNameNodeRpc(node).setSafeMode(SafeModeAction.SAFEMODE_ENTER, false);
      case "unsafe" -> cluster.getNameNodeRpc(node).setSafeMode(SafeModeAction.SAFEMODE_LEAVE, false);
      case "quota" -> cluster.getNameNodeRpc(node).setQuota(order[2], Long.parseLong(order[3]), Long.parseLong(order[4]), null);
      default -> throw new IllegalArgumentException(order[0]);
    }
  }
}
