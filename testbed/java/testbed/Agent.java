package testbed;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * A long-lived JVM on Kafka's own clients: one JSON request per line on standard input, one JSON answer per line on
 * standard output, in the order in which they are done.
 *
 * <p>{@code {"id":1,"op":"create_topic","args":{...}}} gives {@code {"id":1,"ok":{...}}} or {@code {"id":1,"error":"..."}}.
 * {@code {"id":2,"op":"stop","args":{"id":1}}} asks a long request (a fill with a rate, a watch) to come to its end.
 * The end of standard input ends the process at once.
 */
public final class Agent {
    static final ObjectMapper JSON = new ObjectMapper();

    /** One kind of request. */
    interface Op {
        JsonNode run(JsonNode args, AtomicBoolean stop) throws Exception;
    }

    private final Map<Long, AtomicBoolean> running = new ConcurrentHashMap<>();
    private final PrintStream answers;
    private final Map<String, Op> ops;

    private Agent(PrintStream answers) {
        this.answers = answers;
        Admins admins = new Admins();
        Map<String, Op> all = new ConcurrentHashMap<>(admins.ops());
        all.putAll(new Rules(admins).ops());
        all.put("ping", (args, stop) -> JSON.createObjectNode());
        all.put("stop", this::stop);
        all.put("leave", (args, stop) -> leave());
        all.put("fill", (args, stop) -> new Fill(args, stop).run());
        all.put("compare", (args, stop) -> new Compare(args).run());
        all.put("copy_with_edit", (args, stop) -> new Forge(args).run());
        all.put("read", (args, stop) -> Reads.read(args));
        all.put("drain", (args, stop) -> Reads.drain(args));
        all.put("record_offsets", (args, stop) -> Reads.offsets(args));
        all.put("sit", Members::sit);
        all.put("consume", Members::consume);
        all.put("mirror_client", (args, stop) -> Members.mirrorClient(args));
        all.put("watch", (args, stop) -> new Watch(args, admins, stop).run());
        all.put("delays", (args, stop) -> new Delays(args, stop).run());
        all.put("journal", (args, stop) -> new Journal(args, stop).run());
        all.put("ids", (args, stop) -> Journal.ids(args));
        all.put("token_server", Tokens::serve);
        all.put("latency", (args, stop) -> Latency.run(args, stop));
        this.ops = all;
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err); // nothing but answers may reach standard output
        new Agent(answers).serve();
        // Not exit(): open clients would be given time to say goodbye to brokers that are gone.
        Runtime.getRuntime().halt(0);
    }

    private void serve() throws Exception {
        ExecutorService pool = Executors.newCachedThreadPool();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode request = JSON.readTree(line);
            long id = request.path("id").asLong();
            AtomicBoolean stop = new AtomicBoolean();
            running.put(id, stop);
            pool.submit(() -> answer(id, request, stop));
        }
    }

    private void answer(long id, JsonNode request, AtomicBoolean stop) {
        ObjectNode answer = JSON.createObjectNode().put("id", id);
        try {
            String name = request.path("op").asText();
            Op op = ops.get(name);
            if (op == null) {
                throw new IllegalArgumentException("no operation named " + name);
            }
            answer.set("ok", op.run(request.path("args"), stop));
        } catch (Throwable error) {
            answer.put("error", describe(error));
        } finally {
            running.remove(id);
        }
        synchronized (answers) {
            answers.println(answer);
            answers.flush();
        }
    }

    /** An orderly end, in which the JVM writes its class archive if told to. */
    private static JsonNode leave() {
        Thread exit = new Thread(() -> {
            try {
                Thread.sleep(200); // the answer goes first
            } catch (InterruptedException interrupted) {
                return;
            }
            System.exit(0);
        });
        exit.start();
        return JSON.createObjectNode();
    }

    private JsonNode stop(JsonNode args, AtomicBoolean unused) {
        AtomicBoolean flag = running.get(args.path("id").asLong());
        if (flag != null) {
            flag.set(true);
        }
        return JSON.createObjectNode().put("was_running", flag != null);
    }

    /** The chain of causes in one line, and the place of our code that met it. */
    static String describe(Throwable error) {
        StringBuilder text = new StringBuilder();
        Throwable last = error;
        for (Throwable at = error; at != null && text.length() < 2_000; at = at.getCause()) {
            if (text.length() > 0) {
                text.append("; because of ");
            }
            text.append(at.getClass().getSimpleName()).append(": ").append(at.getMessage());
            last = at;
        }
        for (StackTraceElement frame : error.getStackTrace()) {
            if (frame.getClassName().startsWith("testbed.")) {
                return text.append(" (at ").append(frame).append(')').toString();
            }
        }
        return text.append(" (at ").append(last.getStackTrace().length > 0 ? last.getStackTrace()[0] : "?").append(')').toString();
    }

    /** A required text argument. */
    static String text(JsonNode args, String name) {
        JsonNode value = args.get(name);
        if (value == null || !value.isTextual()) {
            throw new IllegalArgumentException("the argument " + name + " is missing");
        }
        return value.asText();
    }
}
