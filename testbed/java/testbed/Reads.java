package testbed;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HexFormat;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;

/** Topics read as they are. */
final class Reads {
    private Reads() {
    }

    /** Records with all their fields; bytes in hexadecimal. For internal topics and small ones. */
    static JsonNode read(JsonNode args) {
        String bootstrap = Agent.text(args, "bootstrap");
        String topic = Agent.text(args, "topic");
        String isolation = args.path("isolation").asText("read_committed");
        int max = args.path("max").asInt(10_000);
        ArrayNode records = Agent.JSON.createArrayNode();
        for (int partition = 0; partition < partitions(bootstrap, topic); partition++) {
            try (Tape tape = new Tape(bootstrap, isolation, new TopicPartition(topic, partition), -1)) {
                for (ConsumerRecord<byte[], byte[]> at = tape.peek(0); at != null && records.size() < max; at = tape.peek(0)) {
                    ObjectNode record = records.addObject();
                    record.put("partition", at.partition()).put("offset", at.offset()).put("timestamp", at.timestamp())
                            .put("timestamp_type", at.timestampType().toString()).put("key", hex(at.key())).put("value", hex(at.value()));
                    ArrayNode headers = record.putArray("headers");
                    for (Header header : at.headers()) {
                        headers.addObject().put("name", header.key()).put("value", hex(header.value()));
                    }
                    tape.advance();
                }
            }
        }
        return records;
    }

    /** Reads a topic to its end and counts: brings it into the page cache, or tells how many records a reader sees. */
    static JsonNode drain(JsonNode args) {
        String bootstrap = Agent.text(args, "bootstrap");
        String topic = Agent.text(args, "topic");
        String isolation = args.path("isolation").asText("read_committed");
        ArrayNode counts = Agent.JSON.createArrayNode();
        for (int partition = 0; partition < partitions(bootstrap, topic); partition++) {
            long count = 0;
            try (Tape tape = new Tape(bootstrap, isolation, new TopicPartition(topic, partition), -1)) {
                for (; tape.peek(0) != null; tape.advance()) {
                    count++;
                }
            }
            counts.add(count);
        }
        return counts;
    }

    /** The offset of every record that a reader sees, by partition. */
    static JsonNode offsets(JsonNode args) {
        String bootstrap = Agent.text(args, "bootstrap");
        String topic = Agent.text(args, "topic");
        String isolation = args.path("isolation").asText("read_committed");
        ArrayNode partitions = Agent.JSON.createArrayNode();
        for (int partition = 0; partition < partitions(bootstrap, topic); partition++) {
            ArrayNode offsets = partitions.addArray();
            try (Tape tape = new Tape(bootstrap, isolation, new TopicPartition(topic, partition), -1)) {
                for (ConsumerRecord<byte[], byte[]> at = tape.peek(0); at != null; at = tape.peek(0)) {
                    offsets.add(at.offset());
                    tape.advance();
                }
            }
        }
        return partitions;
    }

    private static int partitions(String bootstrap, String topic) {
        try (KafkaConsumer<byte[], byte[]> consumer = Tape.consumer(bootstrap, "read_committed")) {
            var infos = consumer.listTopics().get(topic);
            if (infos == null) {
                throw new IllegalArgumentException("there is no topic " + topic + " at " + bootstrap);
            }
            return infos.size();
        }
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? null : HexFormat.of().formatHex(bytes);
    }
}
