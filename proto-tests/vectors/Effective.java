// Writes what MirrorMaker 2's own classes make of properties files: for each FILE.properties in a folder FILE.json, with
// the maps of each pair's worker, source connector and clients, of each cluster's MirrorClient, and some typed values.
//
// Run with the jars of Kafka 4.3.1 (JDK 17 made the committed files):
//   javac -cp "$JARS/*" -d out Effective.java
//   java -cp "$JARS/*:out" org.apache.kafka.connect.mirror.Effective ../golden/effective

package org.apache.kafka.connect.mirror;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.apache.kafka.common.utils.Utils;

public class Effective {
    static final ObjectMapper JSON = new ObjectMapper().enable(SerializationFeature.INDENT_OUTPUT);

    public static void main(String[] args) throws Exception {
        List<Path> files;
        try (Stream<Path> all = Files.list(Path.of(args[0]))) {
            files = all.filter(file -> file.toString().endsWith(".properties")).sorted().toList();
        }
        for (Path file : files) {
            Map<String, String> lines = new HashMap<>();
            // As the driver itself reads its file.
            Utils.propsToStringMap(Utils.loadProps(file.toString())).forEach(lines::put);
            String text = JSON.writeValueAsString(effective(lines)) + "\n";
            Files.writeString(Path.of(file.toString().replace(".properties", ".json")), text);
        }
    }

    static ObjectNode effective(Map<String, String> lines) {
        MirrorMakerConfig config = new MirrorMakerConfig(lines);
        ObjectNode all = JSON.createObjectNode();
        ObjectNode clusters = all.putObject("clusters");
        config.clusters().stream().sorted().forEach(alias -> {
            put(clusters.putObject(alias), config.clusterProps(alias));
        });
        ObjectNode pairs = all.putObject("pairs");
        config.clusterPairs().stream().map(pair -> pair.source() + "->" + pair.target()).sorted().forEach(name -> {
            String[] ends = name.split("->");
            SourceAndTarget pair = new SourceAndTarget(ends[0], ends[1]);
            ObjectNode node = pairs.putObject(name);
            put(node.putObject("worker"), config.workerConfig(pair));
            Map<String, String> connector = config.connectorBaseConfig(pair, MirrorSourceConnector.class);
            put(node.putObject("connector"), connector);
            MirrorSourceConfig source = new MirrorSourceConfig(connector);
            put(node.putObject("source.consumer"), source.sourceConsumerConfig("role"));
            put(node.putObject("source.producer"), source.sourceProducerConfig("role"));
            put(node.putObject("source.admin"), source.sourceAdminConfig("role"));
            put(node.putObject("target.consumer"), source.targetConsumerConfig("role"));
            put(node.putObject("target.producer"), source.targetProducerConfig("role"));
            put(node.putObject("target.admin"), source.targetAdminConfig("role"));
            typed(node.putObject("typed"), source, new MirrorCheckpointConfig(
                    config.connectorBaseConfig(pair, MirrorCheckpointConnector.class)));
        });
        return all;
    }

    static void typed(ObjectNode node, MirrorSourceConfig source, MirrorCheckpointConfig checkpoint) {
        node.put("enabled", source.enabled());
        node.put("offset-syncs.topic", source.offsetSyncsTopic());
        node.put("offset-syncs.topic.location", source.offsetSyncsTopicLocation());
        node.put("checkpoints.topic", source.checkpointsTopic());
        node.put("replica", source.replicationPolicy().formatRemoteTopic(source.sourceClusterAlias(), "orders"));
        node.put("offset.lag.max", source.maxOffsetLag());
        node.put("replication.factor", source.replicationFactor());
        node.put("emit.offset-syncs.enabled", source.emitOffsetSyncsEnabled());
        node.put("heartbeats.replication.enabled", source.heartbeatsReplicationEnabled());
        // Negative for "not at all", as MM2's schedulers take it.
        node.put("refresh.topics", source.refreshTopicsInterval().toSeconds());
        node.put("sync.topic.configs", source.syncTopicConfigsInterval().toSeconds());
        node.put("sync.topic.acls", source.syncTopicAclsInterval().toSeconds());
        node.put("refresh.groups", checkpoint.refreshGroupsInterval().toSeconds());
        node.put("emit.checkpoints", checkpoint.emitCheckpointsInterval().toSeconds());
        node.put("sync.group.offsets", checkpoint.syncGroupOffsetsInterval().toSeconds());
        for (String topic : List.of("orders", "orders.eu", "bar", "foo", "team-a.x", "mm2-x.internal", "__hidden", "a b")) {
            node.put("replicates " + topic, source.topicFilter().shouldReplicateTopic(topic));
        }
        for (String group : List.of("g", "app-1", "console-consumer-1", "connect-x", "__g")) {
            node.put("mirrors " + group, checkpoint.groupFilter().shouldReplicateGroup(group));
        }
        for (String key : List.of("retention.ms", "min.insync.replicas", "cleanup.policy")) {
            node.put("copies " + key, source.configPropertyFilter().shouldReplicateConfigProperty(key));
        }
    }

    static void put(ObjectNode node, Map<String, ?> map) {
        new TreeMap<>(map).forEach((key, value) -> node.put(key, String.valueOf(value)));
    }
}
