package testbed;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * One partition, read in order by Kafka's own consumer, with look-ahead; nothing is skipped without an error.
 *
 * <p>Its end is asked anew each time it is reached, so a partition that still grows is followed.
 */
final class Tape implements AutoCloseable {
    private static final Duration POLL = Duration.ofMillis(100);

    /** The end is at most this old when "nothing more" is said. */
    private static final long END_AGE_NANOS = 5_000_000;

    /** A broker that has records before the end but gives none for so long is an error, not an end. */
    private static final long STALL_NANOS = 120_000_000_000L;

    private final KafkaConsumer<byte[], byte[]> consumer;
    private final TopicPartition partition;
    private final ArrayDeque<ConsumerRecord<byte[], byte[]>> ahead = new ArrayDeque<>();
    private final long start;
    private long position;
    private long end;
    private long endAsked;
    private long lastProgress = System.nanoTime();

    Tape(String bootstrap, String isolation, TopicPartition partition, long from) {
        this.partition = partition;
        this.consumer = consumer(bootstrap, isolation);
        consumer.assign(List.of(partition));
        start = from >= 0 ? from : consumer.beginningOffsets(List.of(partition)).get(partition);
        consumer.seek(partition, start);
        position = start;
        askEnd();
    }

    static KafkaConsumer<byte[], byte[]> consumer(String bootstrap, String isolation) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", bootstrap);
        config.put("client.id", "testbed-judge");
        config.put("key.deserializer", ByteArrayDeserializer.class);
        config.put("value.deserializer", ByteArrayDeserializer.class);
        config.put("isolation.level", isolation);
        config.put("auto.offset.reset", "none"); // an offset that is gone is an error, never a jump
        config.put("enable.auto.commit", false);
        config.put("check.crcs", true);
        config.put("max.poll.records", 5_000);
        config.put("max.partition.fetch.bytes", 2 << 20);
        config.put("fetch.max.wait.ms", 100);
        config.put("reconnect.backoff.max.ms", 200);
        config.put("default.api.timeout.ms", 60_000);
        return new KafkaConsumer<>(config);
    }

    /** The record {@code at} places ahead, or null if the partition ends before it. */
    ConsumerRecord<byte[], byte[]> peek(int at) {
        while (ahead.size() <= at) {
            if (!more()) {
                return null;
            }
        }
        if (at == 0) {
            return ahead.peekFirst();
        }
        Iterator<ConsumerRecord<byte[], byte[]>> records = ahead.iterator();
        for (int i = 0; i < at; i++) {
            records.next();
        }
        return records.next();
    }

    /** Up to {@code count} records ahead, fewer only at the end. */
    List<ConsumerRecord<byte[], byte[]>> window(int count) {
        if (count > 0) {
            peek(count - 1);
        }
        List<ConsumerRecord<byte[], byte[]>> window = new ArrayList<>(Math.min(count, ahead.size()));
        for (ConsumerRecord<byte[], byte[]> record : ahead) {
            if (window.size() == count) {
                break;
            }
            window.add(record);
        }
        return window;
    }

    void advance() {
        ahead.removeFirst();
    }

    /** Where a record would be written next, as of at most a few milliseconds ago. */
    long end() {
        if (System.nanoTime() - endAsked > END_AGE_NANOS) {
            askEnd();
        }
        return end;
    }

    /** Asked after this call began: whatever was visible before is covered. */
    long endNow() {
        askEnd();
        return end;
    }

    long start() {
        return start;
    }

    /** Reads on; false if there is nothing more up to the end. */
    private boolean more() {
        if (position >= end && position >= end()) {
            lastProgress = System.nanoTime();
            return false;
        }
        boolean got = false;
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL).records(partition)) {
            ahead.addLast(record);
            got = true;
        }
        long now = consumer.position(partition);
        if (got || now != position) {
            position = now;
            lastProgress = System.nanoTime();
        } else if (System.nanoTime() - lastProgress > STALL_NANOS) {
            throw new IllegalStateException(partition + " ends at " + end + " but gives nothing beyond " + position
                    + " for " + STALL_NANOS / 1_000_000_000 + " s");
        }
        return true;
    }

    private void askEnd() {
        end = consumer.endOffsets(List.of(partition)).get(partition);
        endAsked = System.nanoTime();
    }

    @Override
    public void close() {
        consumer.close();
    }
}
