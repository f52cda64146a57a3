package testbed;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.connect.mirror.MirrorClient;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/** Members of consumer groups, and what MirrorMaker 2's own client classes say about a cluster. */
final class Members {
    private Members() {
    }

    /** A member that subscribes and polls, and commits nothing, until it is told to stop. */
    static JsonNode sit(JsonNode args, AtomicBoolean stop) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", Agent.text(args, "bootstrap"));
        config.put("group.id", Agent.text(args, "group"));
        config.put("group.protocol", Agent.text(args, "protocol"));
        config.put("key.deserializer", ByteArrayDeserializer.class);
        config.put("value.deserializer", ByteArrayDeserializer.class);
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", false);
        long polls = 0;
        long deadline = System.nanoTime() + Duration.ofMinutes(5).toNanos();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config)) {
            consumer.subscribe(List.of(Agent.text(args, "topic")));
            while (!stop.get() && System.nanoTime() < deadline) {
                consumer.poll(Duration.ofMillis(100));
                polls++;
            }
        }
        return Agent.JSON.createObjectNode().put("polls", polls);
    }

    /** A member that reads a topic with a client's own settings, commits, and leaves; what it read, or what refused it. */
    static JsonNode consume(JsonNode args, AtomicBoolean stop) {
        Map<String, Object> config = new HashMap<>();
        args.path("config").properties().forEach(one -> config.put(one.getKey(), one.getValue().asText()));
        config.put("key.deserializer", ByteArrayDeserializer.class);
        config.put("value.deserializer", ByteArrayDeserializer.class);
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", false);
        ObjectNode said = Agent.JSON.createObjectNode();
        long wanted = args.path("records").asLong();
        long records = 0;
        long deadline = System.nanoTime() + Duration.ofSeconds(30).toNanos();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config)) {
            consumer.subscribe(List.of(Agent.text(args, "topic")));
            while (records < wanted && !stop.get() && System.nanoTime() < deadline) {
                records += consumer.poll(Duration.ofMillis(100)).count();
            }
            consumer.commitSync();
        } catch (AuthorizationException refused) {
            said.put("refused", refused.getClass().getSimpleName());
        }
        return said.put("records", records);
    }

    /** What MirrorClient and RemoteClusterUtils say. */
    static JsonNode mirrorClient(JsonNode args) throws Exception {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", Agent.text(args, "bootstrap"));
        args.path("config").properties().forEach(one -> config.put(one.getKey(), one.getValue().asText()));
        String upstream = Agent.text(args, "upstream");
        ObjectNode said = Agent.JSON.createObjectNode();
        try (MirrorClient client = new MirrorClient(config)) {
            put(said.putArray("heartbeat_topics"), client.heartbeatTopics());
            put(said.putArray("checkpoint_topics"), client.checkpointTopics());
            put(said.putArray("upstream_clusters"), client.upstreamClusters());
            put(said.putArray("remote_topics"), client.remoteTopics());
            said.put("hops", client.replicationHops(upstream));
        }
        ObjectNode groups = said.putObject("groups");
        for (JsonNode group : args.path("groups")) {
            ArrayNode offsets = groups.putArray(group.asText());
            Map<TopicPartition, OffsetAndMetadata> found = RemoteClusterUtils.translateOffsets(
                    config, upstream, group.asText(), Duration.ofSeconds(20));
            found.forEach((partition, offset) -> offsets.addObject().put("topic", partition.topic())
                    .put("partition", partition.partition()).put("offset", offset.offset()).put("metadata", offset.metadata()));
        }
        return said;
    }

    private static void put(ArrayNode into, Iterable<String> names) {
        TreeSet<String> sorted = new TreeSet<>();
        names.forEach(sorted::add);
        sorted.forEach(into::add);
    }
}
