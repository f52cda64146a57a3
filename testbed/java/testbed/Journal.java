package testbed;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A producer that writes down what became of each of its records, for the judge of the soak: {@code a PARTITION OFFSET
 * ID} was acknowledged (and committed), {@code m PARTITION ID} may be there, {@code x PARTITION ID} was aborted and must
 * not be seen. Each record carries its id in its value: incarnation of the topic, number of the producer, number of the
 * record.
 *
 * <p>Brokers die while it runs. A producer that failed is replaced by a new one; what was underway is "may be".
 */
final class Journal {
    private static final int MARK = 0x534F414B; // SOAK

    private final JsonNode args;
    private final AtomicBoolean stop;
    private final String topic;
    private final String kind;
    private final long incarnation;
    private final long number;
    private final int partitions;
    private final double rate;
    private final BufferedWriter out;
    private long acknowledged;
    private long maybe;
    private long aborted;
    private String lastTrouble = "";

    Journal(JsonNode args, AtomicBoolean stop) throws IOException {
        this.args = args;
        this.stop = stop;
        topic = Agent.text(args, "topic");
        kind = Agent.text(args, "kind");
        incarnation = args.path("incarnation").asLong();
        number = args.path("producer").asLong();
        partitions = args.path("partitions").asInt(1);
        rate = args.path("rate").asDouble(100);
        out = Files.newBufferedWriter(Path.of(Agent.text(args, "journal")), StandardCharsets.UTF_8);
    }

    private KafkaProducer<byte[], byte[]> producer() {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", Agent.text(args, "bootstrap"));
        config.put("client.id", "soak-" + kind + "-" + number);
        config.put("key.serializer", ByteArraySerializer.class);
        config.put("value.serializer", ByteArraySerializer.class);
        config.put("acks", "all");
        config.put("linger.ms", 10);
        config.put("compression.type", args.path("compression").asText("none"));
        config.put("reconnect.backoff.max.ms", 200);
        config.put("request.timeout.ms", 5_000);
        config.put("delivery.timeout.ms", 30_000);
        config.put("max.block.ms", 30_000);
        config.put("enable.idempotence", !kind.equals("plain"));
        if (kind.equals("plain")) {
            // A retry could write a record twice, and then twice would be right.
            config.put("retries", 0);
        }
        if (kind.equals("transactional")) {
            config.put("transactional.id", "soak-" + topic + "-" + number);
            config.put("transaction.timeout.ms", 20_000);
        }
        return new KafkaProducer<>(config);
    }

    JsonNode run() throws Exception {
        long next = 0;
        try {
            while (!stop.get()) {
                KafkaProducer<byte[], byte[]> producer = producer();
                try {
                    next = kind.equals("transactional") ? transactions(producer, next) : plainly(producer, next);
                } catch (Exception error) {
                    lastTrouble = Agent.describe(error);
                    TimeUnit.MILLISECONDS.sleep(200);
                    next += 1_000_000; // whatever was underway keeps its numbers
                } finally {
                    producer.close(Duration.ofSeconds(35));
                }
            }
        } finally {
            synchronized (this) {
                out.close();
            }
        }
        return Agent.JSON.createObjectNode().put("acknowledged", acknowledged).put("maybe", maybe).put("aborted", aborted)
                .put("last_trouble", lastTrouble);
    }

    private long id(long n) {
        return incarnation << 56 | number << 48 | n;
    }

    private ProducerRecord<byte[], byte[]> record(long n, int partition) {
        Fill.Rng rng = new Fill.Rng(0);
        rng.start(number, n);
        byte[] value = new byte[12 + rng.below(300)];
        for (int at = 12; at < value.length; at++) {
            value[at] = (byte) ('a' + at % 26);
        }
        ByteBuffer.wrap(value).putInt(MARK).putLong(id(n));
        byte[] key = rng.chance(0.2) ? null : Long.toString(n).getBytes(StandardCharsets.UTF_8);
        return new ProducerRecord<>(topic, partition, key, value);
    }

    private synchronized void note(String line) {
        try {
            out.write(line);
            out.write('\n');
        } catch (IOException error) {
            throw new IllegalStateException("the journal cannot be written", error);
        }
    }

    private long plainly(KafkaProducer<byte[], byte[]> producer, long first) {
        long begun = System.nanoTime();
        long n = first;
        for (; !stop.get(); n++) {
            pace(begun, n - first);
            int partition = (int) (n % partitions);
            long id = id(n);
            producer.send(record(n, partition), (metadata, error) -> {
                if (error == null) {
                    acknowledged++;
                    note("a " + partition + " " + metadata.offset() + " " + id);
                } else {
                    maybe++;
                    lastTrouble = Agent.describe(error);
                    note("m " + partition + " " + id);
                }
            });
        }
        producer.flush();
        return n;
    }

    /** Ten to a hundred records each, every third one aborted. */
    private long transactions(KafkaProducer<byte[], byte[]> producer, long first) {
        producer.initTransactions();
        long begun = System.nanoTime();
        long n = first;
        Fill.Rng rng = new Fill.Rng(number * 31 + first);
        for (long transaction = 0; !stop.get(); transaction++) {
            boolean abort = transaction % 3 == 2;
            List<long[]> sent = new ArrayList<>();
            String state = "x"; // not committed, whatever happens before the commit is asked for
            try {
                producer.beginTransaction();
                int records = 10 + rng.below(91);
                for (int i = 0; i < records; i++, n++) {
                    pace(begun, n - first);
                    long[] one = {n % partitions, -1, id(n)};
                    sent.add(one);
                    producer.send(record(n, (int) one[0]), (metadata, error) -> {
                        if (error == null) {
                            one[1] = metadata.offset();
                        }
                    });
                }
                producer.flush();
                if (abort) {
                    producer.abortTransaction();
                } else {
                    state = "m";
                    producer.commitTransaction();
                    state = "a";
                }
            } finally {
                for (long[] one : sent) {
                    if (state.equals("a") && one[1] < 0) {
                        throw new IllegalStateException("committed without an acknowledgement");
                    }
                    note(state + " " + one[0] + (state.equals("a") ? " " + one[1] : "") + " " + one[2]);
                }
                switch (state) {
                    case "a" -> acknowledged += sent.size();
                    case "m" -> maybe += sent.size();
                    default -> aborted += sent.size();
                }
            }
        }
        return n;
    }

    private void pace(long begun, long i) {
        long due = begun + (long) (i * 1e9 / rate);
        for (long left = due - System.nanoTime(); left > 0 && !stop.get(); left = due - System.nanoTime()) {
            LockSupport.parkNanos(Math.min(left, 50_000_000));
        }
    }

    /** Writes {@code PARTITION OFFSET ID} of each record of a topic to a file; -1 for a record that is none of ours. */
    static JsonNode ids(JsonNode args) throws Exception {
        String bootstrap = Agent.text(args, "bootstrap");
        String topic = Agent.text(args, "topic");
        long count = 0;
        int partitions;
        try (KafkaConsumer<byte[], byte[]> consumer = Tape.consumer(bootstrap, "read_committed")) {
            partitions = consumer.partitionsFor(topic).size();
        }
        try (BufferedWriter out = Files.newBufferedWriter(Path.of(Agent.text(args, "file")), StandardCharsets.UTF_8)) {
            for (int partition = 0; partition < partitions; partition++) {
                try (Tape tape = new Tape(bootstrap, args.path("isolation").asText("read_uncommitted"), new TopicPartition(topic, partition), -1)) {
                    for (ConsumerRecord<byte[], byte[]> record = tape.peek(0); record != null; record = tape.peek(0)) {
                        byte[] value = record.value();
                        boolean ours = value != null && value.length >= 12 && ByteBuffer.wrap(value).getInt(0) == MARK;
                        long id = ours ? ByteBuffer.wrap(value).getLong(4) : -1;
                        out.write(partition + " " + record.offset() + " " + id + "\n");
                        count++;
                        tape.advance();
                    }
                }
            }
        }
        return Agent.JSON.createObjectNode().put("records", count);
    }
}
