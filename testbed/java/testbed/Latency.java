package testbed;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/** Reads a topic live and says how old its stamped records (see {@link Fill}, {@code stamp}) are on arrival. */
final class Latency {
    private Latency() {
    }

    static JsonNode run(JsonNode args, AtomicBoolean stop) throws Exception {
        String topic = Agent.text(args, "topic");
        int records = args.path("records").asInt(1_000);
        boolean fromStart = args.path("from_start").asBoolean(false);
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(args.path("wait_ms").asLong(30_000));
        long[] micros = new long[records];
        int count = 0;
        try (KafkaConsumer<byte[], byte[]> consumer = Tape.consumer(Agent.text(args, "bootstrap"), "read_committed")) {
            List<TopicPartition> partitions = new ArrayList<>();
            while (partitions.isEmpty() && System.nanoTime() < deadline && !stop.get()) {
                List<PartitionInfo> infos = consumer.listTopics().get(topic);
                if (infos == null) {
                    Thread.sleep(20);
                } else {
                    infos.forEach(info -> partitions.add(new TopicPartition(topic, info.partition())));
                }
            }
            consumer.assign(partitions);
            if (fromStart) {
                consumer.seekToBeginning(partitions);
            } else {
                consumer.seekToEnd(partitions);
            }
            while (count < records && System.nanoTime() < deadline && !stop.get()) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(20))) {
                    if (count < records && record.value() != null && record.value().length >= 16) {
                        micros[count++] = Fill.micros() - ByteBuffer.wrap(record.value()).getLong(8);
                    }
                }
            }
        }
        long[] sorted = Arrays.copyOf(micros, count);
        Arrays.sort(sorted);
        return Agent.JSON.createObjectNode().put("records", count)
                .put("p50_us", at(sorted, 0.50)).put("p90_us", at(sorted, 0.90)).put("p99_us", at(sorted, 0.99))
                .put("max_us", at(sorted, 1.0));
    }

    private static long at(long[] sorted, double share) {
        return sorted.length == 0 ? -1 : sorted[(int) Math.min(sorted.length - 1L, Math.round(share * (sorted.length - 1)))];
    }
}
