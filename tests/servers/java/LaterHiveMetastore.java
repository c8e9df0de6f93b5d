import java.net.InetSocketAddress;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.IHMSHandler;
import org.apache.hadoop.hive.metastore.TSetIpAddressProcessor;
import org.apache.hadoop.hive.metastore.conf.MetastoreConf;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;
import org.apache.thrift.transport.TTransportFactory;

/** A Hive Metastore 3 or 4 on loopback: port, a word without meaning, then key=value settings. */
public class LaterHiveMetastore {
  private static final String PACKAGE = "org.apache.hadoop.hive.metastore.";

  public static void main(String[] arguments) throws Exception {
    for (int i = 2; i < arguments.length; i++) {
      String[] setting = arguments[i].split("=", 2);
      System.setProperty(setting[0], setting[1]);
    }
    Configuration conf = MetastoreConf.newMetastoreConf();
    for (int i = 2; i < arguments.length; i++) {
      String[] setting = arguments[i].split("=", 2);
      conf.set(setting[0], setting[1]);
    }
    TServerSocket socket = new TServerSocket(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])));
    new TThreadPoolServer(new TThreadPoolServer.Args(socket)
        .processor(new TSetIpAddressProcessor<>(handler(conf)))
        .transportFactory(new TTransportFactory())
        .protocolFactory(new TBinaryProtocol.Factory())
        .minWorkerThreads(4)
        .maxWorkerThreads(64)).serve();
  }

  /** Versions 3 and 4 have other classes for it. */
  private static IHMSHandler handler(Configuration conf) throws Exception {
    Object handler;
    Class<?> proxies;
    try {
      handler = Class.forName(PACKAGE + "HMSHandler").getConstructor(String.class, Configuration.class).newInstance("hms", conf);
      proxies = Class.forName(PACKAGE + "HMSHandlerProxyFactory");
    } catch (ClassNotFoundException of3) {
      handler = Class.forName(PACKAGE + "HiveMetaStore$HMSHandler")
          .getConstructor(String.class, Configuration.class, boolean.class)
          .newInstance("hms", conf, false);
      proxies = Class.forName(PACKAGE + "RetryingHMSHandler");
    }
    Object made = proxies.getMethod("getProxy", Configuration.class, IHMSHandler.class, boolean.class).invoke(null, conf, handler, true);
    return (IHMSHandler) made;
  }
}
