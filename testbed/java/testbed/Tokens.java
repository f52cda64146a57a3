package testbed;

import com.fasterxml.jackson.databind.JsonNode;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpsConfigurator;
import com.sun.net.httpserver.HttpsServer;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.KeyStore;
import java.util.Base64;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;

/** An OAuth server for tests: the client-credentials grant over HTTPS, with tokens that nobody signed. */
final class Tokens {
    private final JsonNode args;
    private final AtomicInteger given = new AtomicInteger();
    private final AtomicInteger refused = new AtomicInteger();

    private Tokens(JsonNode args) {
        this.args = args;
    }

    /** Serves until it is told to stop; then says how often it gave a token and how often it refused. */
    static JsonNode serve(JsonNode args, AtomicBoolean stop) throws Exception {
        Tokens tokens = new Tokens(args);
        char[] password = Agent.text(args, "password").toCharArray();
        KeyStore store = KeyStore.getInstance("PKCS12");
        try (InputStream in = new FileInputStream(Agent.text(args, "keystore"))) {
            store.load(in, password);
        }
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(store, password);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), null, null);
        HttpsServer server = HttpsServer.create(new InetSocketAddress("127.0.0.1", args.path("port").asInt()), 16);
        server.setHttpsConfigurator(new HttpsConfigurator(context));
        server.createContext("/token", tokens::answer);
        server.start();
        while (!stop.get()) {
            Thread.sleep(20);
        }
        server.stop(0);
        return Agent.JSON.createObjectNode()
                .put("given", tokens.given.get())
                .put("refused", tokens.refused.get());
    }

    private void answer(HttpExchange exchange) throws IOException {
        String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
        String client = args.path("client").asText();
        String pair = client + ":" + args.path("secret").asText();
        String basic = "Basic " + Base64.getEncoder().encodeToString(pair.getBytes(StandardCharsets.UTF_8));
        boolean good = exchange.getRequestMethod().equals("POST")
                && basic.equals(exchange.getRequestHeaders().getFirst("Authorization"))
                && body.equals("grant_type=client_credentials&scope=" + args.path("scope").asText());
        String text;
        if (good) {
            given.incrementAndGet();
            text = Agent.JSON.createObjectNode()
                    .put("access_token", token(client))
                    .put("token_type", "Bearer")
                    .put("expires_in", args.path("lifetime_s").asInt())
                    .toString();
        } else {
            refused.incrementAndGet();
            text = "{\"error\":\"invalid_client\",\"error_description\":\"who is that\"}";
        }
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("Content-Type", "application/json");
        exchange.sendResponseHeaders(good ? 200 : 401, bytes.length);
        exchange.getResponseBody().write(bytes);
        exchange.close();
    }

    private String token(String subject) {
        long now = System.currentTimeMillis() / 1000;
        String claims = Agent.JSON.createObjectNode()
                .put("sub", subject)
                .put("iat", now)
                .put("exp", now + args.path("lifetime_s").asInt())
                .toString();
        Base64.Encoder url = Base64.getUrlEncoder().withoutPadding();
        return url.encodeToString("{\"alg\":\"none\"}".getBytes(StandardCharsets.UTF_8))
                + "." + url.encodeToString(claims.getBytes(StandardCharsets.UTF_8)) + ".";
    }
}
