package testbed;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.admin.Admin;

/**
 * Watches a topic's end offsets every few milliseconds: when was the topic there, when its first record, when
 * {@code records} of them. Times are microseconds since 1970, to be set against those of the other process.
 */
final class Watch {
    private final Admin admin;
    private final Admins admins;
    private final AtomicBoolean stop;
    private final String topic;
    private final String at;
    private final long records;
    private final long everyNanos;
    private final long deadline;

    Watch(JsonNode args, Admins admins, AtomicBoolean stop) {
        this.admins = admins;
        this.admin = admins.of(args);
        this.stop = stop;
        topic = Agent.text(args, "topic");
        at = args.path("at").asText("latest");
        records = Math.max(1, args.path("records").asLong(1));
        everyNanos = Math.max(1, args.path("every_ms").asLong(5)) * 1_000_000;
        deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(args.path("wait_ms").asLong(30_000));
    }

    JsonNode run() throws Exception {
        long topicAt = 0;
        long firstAt = 0;
        long doneAt = 0;
        long sum = 0;
        String trouble = "";
        while (!stop.get() && doneAt == 0 && System.nanoTime() < deadline) {
            long before = System.nanoTime();
            try {
                List<Long> ends = admins.offsets(admin, topic, at);
                long now = Fill.micros();
                sum = ends.stream().mapToLong(Long::longValue).sum();
                topicAt = topicAt == 0 && !ends.isEmpty() ? now : topicAt;
                firstAt = firstAt == 0 && sum > 0 ? now : firstAt;
                doneAt = sum >= records ? now : 0;
            } catch (Exception error) {
                // A leader that moves or a broker that is down: the watch goes on, and says so if it ends in vain.
                trouble = Agent.describe(error);
            }
            // Once it runs, the copy is not to be disturbed by our questions.
            long left = everyNanos * (firstAt > 0 ? 5 : 1) - (System.nanoTime() - before);
            if (left > 0 && doneAt == 0) {
                TimeUnit.NANOSECONDS.sleep(left);
            }
        }
        ObjectNode answer = Agent.JSON.createObjectNode().put("end_offsets", sum).put("last_trouble", trouble);
        answer.put("topic_at_us", topicAt).put("first_at_us", firstAt).put("done_at_us", doneAt);
        return answer;
    }
}
