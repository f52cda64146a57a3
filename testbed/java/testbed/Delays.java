package testbed;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.function.LongBinaryOperator;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * One producer on the source, one reader of the source and one of the target, in one process and so on one clock:
 * when was each record acknowledged, when did each reader have it?
 *
 * <p>Both readers are the same code. What a reader takes by itself is in both, and drops out of the difference.
 */
final class Delays {
    private final JsonNode args;
    private final AtomicBoolean stop;
    private final int warmUp;
    private final int all;
    private final long deadline;
    private final AtomicLongArray acknowledged;
    private final AtomicLongArray onSource;
    private final AtomicLongArray onTarget;
    private final AtomicReference<Exception> failure = new AtomicReference<>();

    Delays(JsonNode args, AtomicBoolean stop) {
        this.args = args;
        this.stop = stop;
        warmUp = args.path("warm_up").asInt(0);
        all = warmUp + args.path("records").asInt(1_000);
        deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(args.path("wait_ms").asLong(120_000));
        acknowledged = new AtomicLongArray(all);
        onSource = new AtomicLongArray(all);
        onTarget = new AtomicLongArray(all);
    }

    JsonNode run() throws Exception {
        CountDownLatch ready = new CountDownLatch(2);
        Thread source = reader("source", onSource, ready);
        Thread target = reader("target", onTarget, ready);
        ready.await(60, TimeUnit.SECONDS);
        produce();
        source.join();
        target.join();
        if (failure.get() != null) {
            throw failure.get();
        }
        ObjectNode answer = Agent.JSON.createObjectNode();
        int[] complete = IntStream.range(warmUp, all)
                .filter(i -> acknowledged.get(i) != 0 && onSource.get(i) != 0 && onTarget.get(i) != 0).toArray();
        if (complete.length < all - warmUp) {
            throw new IllegalStateException((all - warmUp - complete.length) + " of " + (all - warmUp) + " records did not arrive in time");
        }
        answer.put("records", complete.length);
        answer.set("source", spread(complete, acknowledged, onSource));
        answer.set("target", spread(complete, acknowledged, onTarget));
        answer.set("added", spread(complete, onSource, onTarget));
        return answer;
    }

    private static ObjectNode spread(int[] records, AtomicLongArray from, AtomicLongArray to) {
        LongBinaryOperator micros = (begun, ended) -> (ended - begun) / 1_000;
        long[] sorted = LongStream.of(Arrays.stream(records).mapToLong(i -> micros.applyAsLong(from.get(i), to.get(i))).toArray()).sorted().toArray();
        return Agent.JSON.createObjectNode().put("p50_us", at(sorted, 0.50)).put("p99_us", at(sorted, 0.99)).put("max_us", at(sorted, 1.0));
    }

    private static long at(long[] sorted, double share) {
        return sorted[(int) Math.round(share * (sorted.length - 1))];
    }

    private void produce() throws Exception {
        java.util.Map<String, Object> config = new java.util.HashMap<>();
        config.put("bootstrap.servers", Agent.text(args, "source"));
        config.put("key.serializer", ByteArraySerializer.class);
        config.put("value.serializer", ByteArraySerializer.class);
        config.put("linger.ms", 0);
        String topic = Agent.text(args, "source_topic");
        double rate = args.path("rate").asDouble(200);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config)) {
            int partitions = producer.partitionsFor(topic).size();
            long begun = System.nanoTime();
            for (int i = 0; i < all && !stop.get(); i++) {
                long due = begun + (long) (i * 1e9 / rate);
                for (long left = due - System.nanoTime(); left > 0; left = due - System.nanoTime()) {
                    LockSupport.parkNanos(left);
                }
                int index = i;
                byte[] value = ByteBuffer.allocate(100).putLong(MARK).putLong(index).array();
                producer.send(new ProducerRecord<>(topic, i % partitions, null, value), (metadata, error) -> {
                    acknowledged.set(index, System.nanoTime());
                    if (error != null) {
                        failure.compareAndSet(null, error);
                    }
                });
            }
        }
    }

    /** Tells our records from those that lay there before. */
    private static final long MARK = 0x64656C6179730A0DL;

    private Thread reader(String side, AtomicLongArray seen, CountDownLatch ready) {
        Thread thread = new Thread(() -> {
            try (KafkaConsumer<byte[], byte[]> consumer = Tape.consumer(Agent.text(args, side), "read_committed")) {
                String topic = Agent.text(args, side + "_topic");
                List<TopicPartition> partitions = consumer.partitionsFor(topic).stream()
                        .map(info -> new TopicPartition(topic, info.partition())).toList();
                consumer.assign(partitions);
                consumer.seekToEnd(partitions);
                partitions.forEach(consumer::position); // the end is asked for now, not at the first poll
                ready.countDown();
                for (int count = 0; count < all && System.nanoTime() < deadline && failure.get() == null && !stop.get();) {
                    for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(50))) {
                        long now = System.nanoTime();
                        byte[] value = record.value();
                        if (value != null && value.length == 100 && ByteBuffer.wrap(value).getLong(0) == MARK) {
                            seen.set((int) ByteBuffer.wrap(value).getLong(8), now);
                            count++;
                        }
                    }
                }
            } catch (Exception error) {
                failure.compareAndSet(null, error);
            } finally {
                ready.countDown();
            }
        }, "delays-" + side);
        thread.start();
        return thread;
    }
}
