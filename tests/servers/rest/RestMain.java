import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletRequestWrapper;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/**
 * Iceberg's own REST adapter, on a port of the loopback address: {@code RestMain PORT FOLDER}. Below each {@code /NAME} is a catalog
 * of its own, made when it is first asked for, with its database and its warehouse in the folder.
 */
class RestMain {
  private static class Catalogs extends HttpServlet {
    private final transient Map<String, RESTCatalogServlet> served = new ConcurrentHashMap<>();
    private final String folder;

    Catalogs(String folder) {
      this.folder = folder;
    }

    @Override
    protected void service(HttpServletRequest request, HttpServletResponse response) throws ServletException, IOException {
      String uri = request.getRequestURI();
      int end = uri.indexOf('/', 1);
      served.computeIfAbsent(uri.substring(1, end), this::catalog).service(new HttpServletRequestWrapper(request) {
        @Override
        public String getRequestURI() {
          return uri.substring(end);
        }
      }, response);
    }

    private RESTCatalogServlet catalog(String name) {
      Map<String, String> properties = Map.of(
          "type", "jdbc",
          "uri", "jdbc:sqlite:file:" + folder + "/" + name + ".db",
          "warehouse", folder + "/" + name,
          "jdbc.schema-version", "V1");
      return new RESTCatalogServlet(
          new RESTCatalogAdapter(CatalogUtil.buildIcebergCatalog("rest_backend", properties, new Configuration())));
    }
  }

  public static void main(String[] args) throws Exception {
    ServletContextHandler handler = new ServletContextHandler(ServletContextHandler.NO_SESSIONS);
    handler.addServlet(new ServletHolder(new Catalogs(args[1])), "/*");
    Server server = new Server(new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0])));
    server.setHandler(handler);
    server.setStopAtShutdown(true);
    server.start();
    server.join();
  }
}
