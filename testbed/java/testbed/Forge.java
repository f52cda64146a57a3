package testbed;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Copies a topic by hand, with one fault made on purpose: the negative control of {@link Compare}.
 *
 * <p>The fault sits at the record with index {@code at} (counted among the records a committed reader sees) of
 * {@code partition}; {@code edit} names it.
 */
final class Forge {
    private final String bootstrap;
    private final String source;
    private final String target;
    private final String edit;
    private final int partition;
    private final int at;
    private final int count;

    Forge(JsonNode args) {
        bootstrap = Agent.text(args, "bootstrap");
        source = Agent.text(args, "source_topic");
        target = Agent.text(args, "target_topic");
        edit = args.path("edit").asText("none");
        partition = args.path("partition").asInt(0);
        at = args.path("at").asInt(0);
        count = Math.max(1, args.path("count").asInt(1));
    }

    JsonNode run() throws Exception {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", bootstrap);
        config.put("key.serializer", ByteArraySerializer.class);
        config.put("value.serializer", ByteArraySerializer.class);
        config.put("linger.ms", 5);
        long written = 0;
        AtomicReference<Exception> failure = new AtomicReference<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config)) {
            int partitions = producer.partitionsFor(source).size();
            for (int p = 0; p < partitions; p++) {
                List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
                try (Tape tape = new Tape(bootstrap, "read_committed", new TopicPartition(source, p), -1)) {
                    for (ConsumerRecord<byte[], byte[]> record = tape.peek(0); record != null; record = tape.peek(0)) {
                        records.add(record);
                        tape.advance();
                    }
                }
                for (ProducerRecord<byte[], byte[]> record : edited(records, p)) {
                    producer.send(record, (metadata, error) -> {
                        if (error != null) {
                            failure.compareAndSet(null, error);
                        }
                    });
                    written++;
                }
            }
            producer.flush();
        }
        if (failure.get() != null) {
            throw failure.get();
        }
        return Agent.JSON.createObjectNode().put("records", written);
    }

    private List<ProducerRecord<byte[], byte[]>> edited(List<ConsumerRecord<byte[], byte[]>> records, int p) {
        List<ProducerRecord<byte[], byte[]>> copy = new ArrayList<>();
        records.forEach(record -> copy.add(as(record, record.timestamp(), record.key(), record.value(), List.of(record.headers().toArray()))));
        if (p != partition || edit.equals("none")) {
            return copy;
        }
        ConsumerRecord<byte[], byte[]> record = records.get(at);
        List<Header> headers = new ArrayList<>(List.of(record.headers().toArray()));
        switch (edit) {
            case "flip_value" -> copy.set(at, as(record, record.timestamp(), record.key(), flipped(record.value()), headers));
            case "flip_key" -> copy.set(at, as(record, record.timestamp(), flipped(record.key()), record.value(), headers));
            case "null_key" -> copy.set(at, as(record, record.timestamp(), null, record.value(), headers));
            case "empty_tombstone" -> copy.set(at, as(record, record.timestamp(), record.key(), new byte[0], headers));
            case "timestamp" -> copy.set(at, as(record, record.timestamp() + 1, record.key(), record.value(), headers));
            case "drop" -> copy.subList(at, at + count).clear();
            case "double" -> copy.addAll(at + count, new ArrayList<>(copy.subList(at, at + count)));
            case "late_double" -> copy.addAll(new ArrayList<>(copy.subList(at, at + count)));
            case "swap" -> copy.set(at, copy.set(at + 1, copy.get(at)));
            case "invent" -> copy.add(at, as(record, record.timestamp(), record.key(), flipped(record.value()), headers));
            case "truncate" -> copy.subList(at, copy.size()).clear();
            case "swap_headers" -> {
                headers.add(0, headers.remove(1));
                copy.set(at, as(record, record.timestamp(), record.key(), record.value(), headers));
            }
            case "drop_header" -> {
                headers.remove(0);
                copy.set(at, as(record, record.timestamp(), record.key(), record.value(), headers));
            }
            case "empty_header" -> {
                headers.set(0, new RecordHeader(headers.get(0).key(), new byte[0]));
                copy.set(at, as(record, record.timestamp(), record.key(), record.value(), headers));
            }
            default -> throw new IllegalArgumentException("no edit named " + edit);
        }
        return copy;
    }

    private ProducerRecord<byte[], byte[]> as(ConsumerRecord<byte[], byte[]> record, long timestamp, byte[] key, byte[] value, List<Header> headers) {
        return new ProducerRecord<>(target, record.partition(), timestamp, key, value, headers);
    }

    private static byte[] flipped(byte[] bytes) {
        byte[] copy = bytes.clone();
        copy[copy.length - 1] ^= 1;
        return copy;
    }
}
