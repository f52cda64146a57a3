package testbed;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes a topic from a specification. What record {@code i} holds depends on the seed and on {@code i} alone, so the
 * same specification gives the same topic, with any number of producers and at any rate (a stamp apart).
 *
 * <p>Key and value arrays are reused: the producer copies them into its batch before {@code send} returns.
 */
final class Fill {
    private static final byte[][] WORDS = words();
    /** Random bytes that values are cut from; a prime length so that cuts drift. */
    private static final int NOISE = 1_048_573;

    private final String bootstrap;
    private final String topic;
    private final long records;
    private final long first;
    private final long seed;
    private final int[] partitions;
    private final int run;
    private final int sizeMin;
    private final int sizeMax;
    private final boolean wordy;
    private final boolean stamp;
    private final double nullKeys;
    private final double emptyKeys;
    private final long distinctKeys;
    private final double tombstones;
    private final double emptyValues;
    private final double headered;
    private final String timestamps;
    private final long timestampStart;
    private final long timestampStep;
    private final double rate;
    private final int txnRecords;
    private final int abortEvery;
    private final String txnId;
    private final boolean leaveOpen;
    /** Each has transactions of its own, and counts those to abort for itself. */
    private final int producers;
    private final Map<String, Object> config = new HashMap<>();

    private final AtomicBoolean stop;
    private final AtomicReference<Exception> failure = new AtomicReference<>();
    private final LongAdder acknowledged = new LongAdder();
    private final LongAdder sent = new LongAdder();
    private final LongAdder payload = new LongAdder();
    private final LongAdder aborted = new LongAdder();
    private final LongAdder open = new LongAdder();
    private final byte[] noise = new byte[NOISE];

    Fill(JsonNode args, AtomicBoolean stop) {
        this.stop = stop;
        bootstrap = Agent.text(args, "bootstrap");
        topic = Agent.text(args, "topic");
        records = args.path("records").asLong();
        first = args.path("first").asLong(0);
        seed = args.path("seed").asLong(1);
        partitions = new int[args.path("partitions").size()];
        for (int i = 0; i < partitions.length; i++) {
            partitions[i] = args.path("partitions").get(i).asInt();
        }
        run = Math.max(1, args.path("run").asInt(1));
        sizeMin = args.path("size_min").asInt(100);
        sizeMax = Math.max(sizeMin, args.path("size_max").asInt(sizeMin));
        wordy = args.path("content").asText("words").equals("words");
        stamp = args.path("stamp").asBoolean(false);
        nullKeys = args.path("null_keys").asDouble(0);
        emptyKeys = args.path("empty_keys").asDouble(0);
        distinctKeys = args.path("distinct_keys").asLong(0);
        tombstones = args.path("tombstones").asDouble(0);
        emptyValues = args.path("empty_values").asDouble(0);
        headered = args.path("headers").asDouble(0);
        timestamps = args.path("timestamps").asText("now");
        timestampStart = args.path("timestamp_start").asLong(0);
        timestampStep = args.path("timestamp_step").asLong(1);
        rate = args.path("rate").asDouble(0);
        txnRecords = args.path("txn_records").asInt(0);
        abortEvery = args.path("abort_every").asInt(0);
        txnId = args.path("txn_id").asText("testbed-" + topic);
        leaveOpen = args.path("leave_open").asBoolean(false);
        producers = Math.max(1, args.path("producers").asInt(1));

        config.put("bootstrap.servers", bootstrap);
        config.put("key.serializer", ByteArraySerializer.class);
        config.put("value.serializer", ByteArraySerializer.class);
        config.put("client.id", "testbed-fill");
        config.put("compression.type", args.path("compression").asText("none"));
        config.put("batch.size", args.path("batch_size").asInt(16_384));
        config.put("linger.ms", args.path("linger_ms").asInt(5));
        config.put("acks", "all");
        config.put("enable.idempotence", args.path("idempotent").asBoolean(true));
        config.put("buffer.memory", 128L << 20);
        config.put("max.request.size", 64 << 20);
        config.put("reconnect.backoff.max.ms", 200);
        config.put("delivery.timeout.ms", 120_000);
    }

    JsonNode run() throws Exception {
        new Rng(seed).fill(noise);
        int[] to = partitions.length > 0 ? partitions : allPartitions();
        int threads = Math.min(producers, to.length);
        long begun = System.nanoTime();
        List<Thread> workers = new ArrayList<>();
        for (int worker = 0; worker < threads; worker++) {
            int mine = worker;
            Thread thread = new Thread(() -> {
                try {
                    produce(to, mine, threads);
                } catch (Exception error) {
                    failure.compareAndSet(null, error);
                }
            }, "fill-" + mine);
            thread.start();
            workers.add(thread);
        }
        for (Thread worker : workers) {
            worker.join();
        }
        if (failure.get() != null) {
            throw failure.get();
        }
        if (acknowledged.sum() != sent.sum()) {
            throw new IllegalStateException(sent.sum() + " records were sent but " + acknowledged.sum() + " acknowledged");
        }
        return Agent.JSON.createObjectNode()
                .put("records", sent.sum() - aborted.sum() - open.sum())
                .put("aborted", aborted.sum())
                .put("open", open.sum())
                .put("payload_bytes", payload.sum())
                .put("elapsed_ms", (System.nanoTime() - begun) / 1_000_000);
    }

    private int[] allPartitions() {
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config)) {
            int[] all = new int[producer.partitionsFor(topic).size()];
            for (int partition = 0; partition < all.length; partition++) {
                all[partition] = partition;
            }
            return all;
        }
    }

    private void produce(int[] to, int worker, int workers) throws Exception {
        Map<String, Object> own = new HashMap<>(config);
        boolean transactional = txnRecords > 0;
        if (transactional) {
            own.put("transactional.id", workers > 1 ? txnId + "-" + worker : txnId);
            own.put("enable.idempotence", true);
            own.put("transaction.timeout.ms", 600_000);
        }
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(own);
        boolean inTransaction = false;
        boolean left = false;
        try {
            if (transactional) {
                producer.initTransactions();
            }
            Content content = new Content();
            Callback callback = this::acknowledge;
            long begun = System.nanoTime();
            long inThis = 0;
            long transaction = 0;
            for (long i = 0; i < records && !stop.get() && failure.get() == null; i++) {
                int slot = (int) ((i / run) % to.length);
                if (slot % workers != worker) {
                    continue;
                }
                if (rate > 0) {
                    pace(begun, i);
                }
                if (transactional && !inTransaction) {
                    producer.beginTransaction();
                    inTransaction = true;
                    inThis = 0;
                }
                producer.send(content.record(first + i, to[slot]), callback);
                sent.increment();
                payload.add(content.bytes);
                inThis++;
                if (transactional && inThis == txnRecords) {
                    transaction++;
                    end(producer, abortEvery > 0 && transaction % abortEvery == 0, inThis);
                    inTransaction = false;
                }
            }
            producer.flush();
            if (inTransaction && leaveOpen) {
                open.add(inThis);
                left = true;
            } else if (inTransaction) {
                end(producer, false, inThis);
            }
        } finally {
            // Closing would abort a transaction that is to stay open; that producer stays until the agent's end.
            if (!left) {
                producer.close(java.time.Duration.ofSeconds(30));
            }
        }
    }

    private void end(KafkaProducer<byte[], byte[]> producer, boolean abort, long inThis) {
        producer.flush(); // else aborted records would never leave the client
        if (abort) {
            producer.abortTransaction();
            aborted.add(inThis);
        } else {
            producer.commitTransaction();
        }
    }

    private void acknowledge(RecordMetadata metadata, Exception error) {
        if (error != null) {
            failure.compareAndSet(null, error);
        } else {
            acknowledged.increment();
        }
    }

    /** Keeps to the rate over the whole run; sleeps rather than spins. */
    private void pace(long begun, long i) {
        long due = begun + (long) (i * 1e9 / rate);
        for (long left = due - System.nanoTime(); left > 0 && !stop.get(); left = due - System.nanoTime()) {
            LockSupport.parkNanos(Math.min(left, 50_000_000));
        }
    }

    /** Makes records; one per producer thread. */
    private final class Content {
        private final Rng rng = new Rng(0);
        private final Map<Integer, byte[]> values = new HashMap<>();
        private final byte[] key = new byte[16];
        int bytes;

        ProducerRecord<byte[], byte[]> record(long index, int partition) {
            rng.start(seed, index);
            byte[] key = key(index);
            byte[] value = value(index);
            List<Header> headers = headered > 0 && rng.chance(headered) ? headers() : null;
            bytes = (key == null ? 0 : key.length) + (value == null ? 0 : value.length);
            return new ProducerRecord<>(topic, partition, timestamp(index), key, value, headers);
        }

        private byte[] key(long index) {
            double draw = nullKeys + emptyKeys > 0 ? rng.share() : 1;
            if (draw < nullKeys) {
                return null;
            }
            if (draw < nullKeys + emptyKeys) {
                return new byte[0];
            }
            long number = distinctKeys > 0 ? Rng.mix(seed ^ index) >>> 1 : index;
            digits(distinctKeys > 0 ? number % distinctKeys : number);
            return key;
        }

        /** "key-" and twelve digits: readable in a failing test. */
        private void digits(long number) {
            key[0] = 'k';
            key[1] = 'e';
            key[2] = 'y';
            key[3] = '-';
            for (int at = 15; at >= 4; at--) {
                key[at] = (byte) ('0' + number % 10);
                number /= 10;
            }
        }

        private byte[] value(long index) {
            double draw = tombstones + emptyValues > 0 ? rng.share() : 1;
            if (draw < tombstones) {
                return null;
            }
            if (draw < tombstones + emptyValues) {
                return new byte[0];
            }
            int size = sizeMin == sizeMax ? sizeMin : sizeMin + rng.below(sizeMax - sizeMin + 1);
            byte[] value = values.size() < 4_096 ? values.computeIfAbsent(size, byte[]::new) : values.getOrDefault(size, new byte[size]);
            int at = put(value, 0, index);
            if (stamp) {
                at = put(value, at, micros());
            }
            if (wordy) {
                while (at < size) {
                    byte[] word = WORDS[(int) (rng.next() >>> 56)];
                    int length = Math.min(word.length, size - at);
                    System.arraycopy(word, 0, value, at, length);
                    at += length;
                }
            } else {
                while (at < size) {
                    int from = rng.below(NOISE);
                    int length = Math.min(size - at, NOISE - from);
                    System.arraycopy(noise, from, value, at, length);
                    at += length;
                }
            }
            return value;
        }

        private static int put(byte[] value, int at, long number) {
            for (int shift = 56; shift >= 0 && at < value.length; shift -= 8) {
                value[at++] = (byte) (number >>> shift);
            }
            return at;
        }

        /** One to six headers: names that repeat, null and empty values, an empty name, an order of their own. */
        private List<Header> headers() {
            int count = 1 + rng.below(6);
            List<Header> headers = new ArrayList<>(count);
            for (int i = 0; i < count; i++) {
                long draw = rng.next() >>> 1;
                String name = draw % 16 == 0 ? "" : "h" + draw % 3;
                byte[] value = switch ((int) (draw / 16 % 5)) {
                    case 0 -> null;
                    case 1 -> new byte[0];
                    default -> Long.toHexString(draw).getBytes(StandardCharsets.UTF_8);
                };
                headers.add(new RecordHeader(name, value));
            }
            return headers;
        }

        /** "now" leaves it to the producer; "step" counts up; "spread" jumps both ways within a thousand steps. */
        private Long timestamp(long index) {
            return switch (timestamps) {
                case "step" -> timestampStart + index * timestampStep;
                case "spread" -> timestampStart + rng.below(1_000) * timestampStep;
                default -> null;
            };
        }
    }

    static long micros() {
        java.time.Instant now = java.time.Instant.now();
        return now.getEpochSecond() * 1_000_000 + now.getNano() / 1_000;
    }

    /** 256 words of one to twelve letters: text that compresses to about a half, as events do. */
    private static byte[][] words() {
        Rng rng = new Rng(7);
        byte[][] words = new byte[256][];
        for (int i = 0; i < words.length; i++) {
            byte[] word = new byte[2 + rng.below(11)];
            for (int at = 0; at < word.length - 1; at++) {
                word[at] = (byte) ('a' + rng.below(26));
            }
            word[word.length - 1] = ' ';
            words[i] = word;
        }
        return words;
    }

    /** SplitMix64: one multiplication per draw, and any record's stream can be started at once. */
    static final class Rng {
        private long state;

        Rng(long seed) {
            state = seed;
        }

        void start(long seed, long index) {
            state = mix(seed * 0x9E3779B97F4A7C15L + index);
        }

        long next() {
            state += 0x9E3779B97F4A7C15L;
            return mix(state);
        }

        int below(int bound) {
            return (int) ((next() >>> 1) % bound);
        }

        double share() {
            return (next() >>> 11) * 0x1.0p-53;
        }

        boolean chance(double share) {
            return share() < share;
        }

        void fill(byte[] bytes) {
            for (int at = 0; at < bytes.length; at++) {
                bytes[at] = (byte) (next() >>> 56);
            }
        }

        static long mix(long z) {
            z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
            z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
            return z ^ (z >>> 31);
        }
    }
}
