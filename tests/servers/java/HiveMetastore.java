import java.net.InetSocketAddress;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.IHMSHandler;
import org.apache.hadoop.hive.metastore.RetryingHMSHandler;
import org.apache.hadoop.hive.metastore.TSetIpAddressProcessor;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;
import org.apache.hadoop.hive.ql.txn.AcidHouseKeeperService;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;
import org.apache.thrift.transport.TTransportFactory;

/**
 * A Hive Metastore on loopback: port, "init" (make the lock tables, Derby only) or "noinit", then key=value settings. With a
 * setting of hive.txn.timeout it has the service that removes locks without a heartbeat.
 */
public class HiveMetastore {
  public static void main(String[] arguments) throws Exception {
    HiveConf conf = new HiveConf(HiveMetastore.class);
    for (int i = 2; i < arguments.length; i++) {
      String[] setting = arguments[i].split("=", 2);
      conf.set(setting[0], setting[1]);
      System.setProperty(setting[0], setting[1]);
    }
    if (arguments[1].equals("init")) {
      TxnDbUtil.setConfValues(conf);
      TxnDbUtil.prepDb(conf);
    }
    if (System.getProperty("hive.txn.timeout") != null) {
      new AcidHouseKeeperService().start(conf);
    }
    IHMSHandler handler = RetryingHMSHandler.getProxy(conf, new HiveMetaStore.HMSHandler("hms", conf, false), true);
    TServerSocket socket = new TServerSocket(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])));
    new TThreadPoolServer(new TThreadPoolServer.Args(socket)
        .processor(new TSetIpAddressProcessor<>(handler))
        .transportFactory(new TTransportFactory())
        .protocolFactory(new TBinaryProtocol.Factory())
        .minWorkerThreads(4)
        .maxWorkerThreads(64)).serve();
  }
}
