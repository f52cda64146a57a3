package testbed;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.ReplicaInfo;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TopicListing;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;

/** Topics, offsets, configs and groups; one admin client per bootstrap string, kept for as long as the agent lives. */
final class Admins {
    /** No answer takes longer on a loopback cluster that lives. */
    private static final long ANSWER_WAIT_MS = 30_000;

    /** Creation is answered before leaders exist; with a thousand partitions that is seconds. */
    private static final long LEADERS_WAIT_MS = 60_000;

    /** Groups or topics in one go: more would only fill the client's queue. */
    private static final int AT_ONCE = 200;

    private final Map<String, Admin> admins = new ConcurrentHashMap<>();

    Map<String, Agent.Op> ops() {
        Map<String, Agent.Op> all = new HashMap<>();
        all.put("create_topic", (args, stop) -> createTopic(args));
        all.put("add_partitions", (args, stop) -> addPartitions(args));
        all.put("delete_topic", (args, stop) -> deleteTopic(args));
        all.put("list_topics", (args, stop) -> listTopics(args));
        all.put("describe_topic", (args, stop) -> describeTopic(args));
        all.put("list_offsets", (args, stop) -> listOffsets(args));
        all.put("delete_records", (args, stop) -> deleteRecords(args));
        all.put("alter_topic_configs", (args, stop) -> alterTopicConfigs(args));
        all.put("topic_configs", (args, stop) -> topicConfigs(args));
        all.put("elect_leaders", (args, stop) -> electLeaders(args));
        all.put("reassign", (args, stop) -> reassign(args));
        all.put("list_groups", (args, stop) -> listGroups(args));
        all.put("commit_offsets", (args, stop) -> commitOffsets(args));
        all.put("group_offsets", (args, stop) -> groupOffsets(args));
        all.put("delete_group", (args, stop) -> deleteGroup(args));
        all.put("log_size", (args, stop) -> logSize(args));
        all.put("create_topics", (args, stop) -> createTopics(args));
        all.put("commit_many", (args, stop) -> commitMany(args));
        all.put("groups_offsets", (args, stop) -> groupsOffsets(args));
        all.put("delete_group_offsets", (args, stop) -> deleteGroupOffsets(args));
        all.put("set_quota", (args, stop) -> setQuota(args));
        all.put("unregister_broker", (args, stop) -> unregisterBroker(args));
        return all;
    }

    Admin of(JsonNode args) {
        return admins.computeIfAbsent(Agent.text(args, "bootstrap"), bootstrap -> {
            Map<String, Object> config = new HashMap<>();
            config.put("bootstrap.servers", bootstrap);
            config.put("client.id", "testbed-admin");
            config.put("default.api.timeout.ms", (int) ANSWER_WAIT_MS);
            config.put("request.timeout.ms", 5_000);
            config.put("reconnect.backoff.max.ms", 200);
            // Topics and leaders change under our hands; nothing here is worth an old answer.
            config.put("metadata.max.age.ms", 2_000);
            return Admin.create(config);
        });
    }

    static <T> T get(KafkaFuture<T> future) throws Exception {
        try {
            return future.get(ANSWER_WAIT_MS + 5_000, TimeUnit.MILLISECONDS);
        } catch (ExecutionException error) {
            throw error.getCause() instanceof Exception cause ? cause : error;
        }
    }

    private JsonNode createTopic(JsonNode args) throws Exception {
        Admin admin = of(args);
        String name = Agent.text(args, "topic");
        JsonNode assignment = args.path("assignment");
        NewTopic topic;
        if (assignment.isArray() && !assignment.isEmpty()) {
            Map<Integer, List<Integer>> replicas = new HashMap<>();
            for (int partition = 0; partition < assignment.size(); partition++) {
                replicas.put(partition, ints(assignment.get(partition)));
            }
            topic = new NewTopic(name, replicas);
        } else {
            topic = new NewTopic(name, args.path("partitions").asInt(1), (short) args.path("replication_factor").asInt(1));
        }
        topic.configs(texts(args.path("configs")));
        get(admin.createTopics(List.of(topic)).all());
        return awaitLeaders(admin, name, topic.replicasAssignments() == null ? topic.numPartitions() : assignment.size());
    }

    private JsonNode addPartitions(JsonNode args) throws Exception {
        Admin admin = of(args);
        String name = Agent.text(args, "topic");
        int total = args.path("total").asInt();
        get(admin.createPartitions(Map.of(name, NewPartitions.increaseTo(total))).all());
        return awaitLeaders(admin, name, total);
    }

    private JsonNode awaitLeaders(Admin admin, String name, int partitions) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(LEADERS_WAIT_MS);
        String last = "";
        while (System.nanoTime() < deadline) {
            try {
                TopicDescription description = get(admin.describeTopics(List.of(name)).allTopicNames()).get(name);
                long led = description.partitions().stream().filter(p -> p.leader() != null && p.leader().id() >= 0).count();
                if (led >= partitions) {
                    // A leader that is named need not have heard of it: it then refuses the first batch, takes the
                    // second as a new producer's first, and refuses the first one's retry for ever as out of order.
                    // Only the leader itself answers this question.
                    offsets(admin, name, "latest");
                    return describe(description);
                }
                last = led + " of " + partitions + " partitions have a leader";
            } catch (UnknownTopicOrPartitionException unknown) {
                last = "a broker does not know the topic yet";
            }
            Thread.sleep(10);
        }
        throw new TimeoutException("topic " + name + " is not usable " + LEADERS_WAIT_MS + " ms after its creation: " + last);
    }

    private JsonNode deleteTopic(JsonNode args) throws Exception {
        Admin admin = of(args);
        String name = Agent.text(args, "topic");
        get(admin.deleteTopics(List.of(name)).all());
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(LEADERS_WAIT_MS);
        while (get(admin.listTopics(new ListTopicsOptions().listInternal(true)).names()).contains(name)) {
            if (System.nanoTime() > deadline) {
                throw new TimeoutException("topic " + name + " is still listed " + LEADERS_WAIT_MS + " ms after its deletion");
            }
            Thread.sleep(10);
        }
        return Agent.JSON.createObjectNode();
    }

    private JsonNode listTopics(JsonNode args) throws Exception {
        ArrayNode names = Agent.JSON.createArrayNode();
        Collection<TopicListing> all = get(of(args).listTopics(new ListTopicsOptions().listInternal(true)).listings());
        all.stream().map(TopicListing::name).sorted().forEach(names::add);
        return names;
    }

    private JsonNode describeTopic(JsonNode args) throws Exception {
        String name = Agent.text(args, "topic");
        try {
            return describe(get(of(args).describeTopics(List.of(name)).allTopicNames()).get(name));
        } catch (UnknownTopicOrPartitionException unknown) {
            return Agent.JSON.nullNode();
        }
    }

    private static ObjectNode describe(TopicDescription description) {
        ObjectNode topic = Agent.JSON.createObjectNode();
        topic.put("name", description.name()).put("topic_id", description.topicId().toString());
        ArrayNode partitions = topic.putArray("partitions");
        for (TopicPartitionInfo info : description.partitions()) {
            ObjectNode partition = partitions.addObject().put("partition", info.partition());
            Node leader = info.leader();
            partition.put("leader", leader == null ? -1 : leader.id());
            ArrayNode replicas = partition.putArray("replicas");
            info.replicas().forEach(node -> replicas.add(node.id()));
            ArrayNode isr = partition.putArray("isr");
            info.isr().forEach(node -> isr.add(node.id()));
        }
        return topic;
    }

    /** Offsets of all partitions; an empty list if there is no such topic. */
    List<Long> offsets(Admin admin, String topic, String at) throws Exception {
        TopicDescription description;
        try {
            description = get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic);
        } catch (UnknownTopicOrPartitionException unknown) {
            return List.of();
        }
        OffsetSpec spec = at.equals("earliest") ? OffsetSpec.earliest() : OffsetSpec.latest();
        IsolationLevel isolation = at.equals("stable") ? IsolationLevel.READ_COMMITTED : IsolationLevel.READ_UNCOMMITTED;
        Map<TopicPartition, OffsetSpec> question = new HashMap<>();
        description.partitions().forEach(info -> question.put(new TopicPartition(topic, info.partition()), spec));
        Map<TopicPartition, ListOffsetsResult.ListOffsetsResultInfo> answer =
                get(admin.listOffsets(question, new ListOffsetsOptions(isolation)).all());
        List<Long> offsets = new ArrayList<>();
        for (int partition = 0; partition < description.partitions().size(); partition++) {
            offsets.add(answer.get(new TopicPartition(topic, partition)).offset());
        }
        return offsets;
    }

    private JsonNode listOffsets(JsonNode args) throws Exception {
        ArrayNode all = Agent.JSON.createArrayNode();
        offsets(of(args), Agent.text(args, "topic"), args.path("at").asText("latest")).forEach(all::add);
        return all;
    }

    private JsonNode deleteRecords(JsonNode args) throws Exception {
        Map<TopicPartition, RecordsToDelete> before = new HashMap<>();
        offsetsByPartition(args).forEach((partition, offset) -> before.put(partition, RecordsToDelete.beforeOffset(offset)));
        get(of(args).deleteRecords(before).all());
        return Agent.JSON.createObjectNode();
    }

    private JsonNode alterTopicConfigs(JsonNode args) throws Exception {
        List<AlterConfigOp> ops = new ArrayList<>();
        texts(args.path("set")).forEach((key, value) -> ops.add(new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET)));
        args.path("unset").forEach(key -> ops.add(new AlterConfigOp(new ConfigEntry(key.asText(), ""), AlterConfigOp.OpType.DELETE)));
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, Agent.text(args, "topic"));
        get(of(args).incrementalAlterConfigs(Map.of(topic, ops)).all());
        return Agent.JSON.createObjectNode();
    }

    private JsonNode topicConfigs(JsonNode args) throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, Agent.text(args, "topic"));
        ObjectNode all = Agent.JSON.createObjectNode();
        Map<String, ConfigEntry> sorted = new TreeMap<>();
        get(of(args).describeConfigs(List.of(topic)).all()).get(topic).entries().forEach(entry -> sorted.put(entry.name(), entry));
        sorted.forEach((name, entry) -> all.putObject(name).put("value", entry.value()).put("source", entry.source().name()));
        return all;
    }

    private JsonNode electLeaders(JsonNode args) throws Exception {
        Admin admin = of(args);
        String topic = Agent.text(args, "topic");
        Set<TopicPartition> partitions = new HashSet<>();
        get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic).partitions()
                .forEach(info -> partitions.add(new TopicPartition(topic, info.partition())));
        Map<TopicPartition, Optional<Throwable>> outcome = get(admin.electLeaders(ElectionType.PREFERRED, partitions).partitions());
        for (Map.Entry<TopicPartition, Optional<Throwable>> entry : outcome.entrySet()) {
            Throwable error = entry.getValue().orElse(null);
            if (error != null && !(error instanceof ElectionNotNeededException)) {
                throw new IllegalStateException("no preferred leader for " + entry.getKey(), error);
            }
        }
        // The controller has decided; the broker that answers our next question learns of it a moment later.
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(LEADERS_WAIT_MS);
        while (!get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic).partitions().stream()
                .allMatch(info -> info.leader() != null && info.leader().id() == info.replicas().get(0).id())) {
            if (System.nanoTime() > deadline) {
                throw new TimeoutException("topic " + topic + " is not led by its first replicas " + LEADERS_WAIT_MS + " ms after the election");
            }
            Thread.sleep(20);
        }
        return Agent.JSON.createObjectNode();
    }

    private JsonNode reassign(JsonNode args) throws Exception {
        Admin admin = of(args);
        TopicPartition partition = new TopicPartition(Agent.text(args, "topic"), args.path("partition").asInt());
        get(admin.alterPartitionReassignments(
                Map.of(partition, Optional.of(new NewPartitionReassignment(ints(args.path("replicas")))))).all());
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(LEADERS_WAIT_MS);
        while (!get(admin.listPartitionReassignments(Set.of(partition)).reassignments()).isEmpty()) {
            if (System.nanoTime() > deadline) {
                throw new TimeoutException(partition + " has not moved within " + LEADERS_WAIT_MS + " ms");
            }
            Thread.sleep(50);
        }
        return Agent.JSON.createObjectNode();
    }

    private JsonNode listGroups(JsonNode args) throws Exception {
        ArrayNode all = Agent.JSON.createArrayNode();
        for (GroupListing group : get(of(args).listGroups().all())) {
            all.addObject().put("group", group.groupId()).put("protocol", group.protocol())
                    .put("type", group.type().map(Object::toString).orElse(""))
                    .put("state", group.groupState().map(Object::toString).orElse(""));
        }
        return all;
    }

    private JsonNode commitOffsets(JsonNode args) throws Exception {
        get(of(args).alterConsumerGroupOffsets(Agent.text(args, "group"), committed(args)).all());
        return Agent.JSON.createObjectNode();
    }

    private static Map<TopicPartition, OffsetAndMetadata> committed(JsonNode args) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (JsonNode entry : args.path("offsets")) {
            Optional<Integer> epoch = entry.has("epoch") ? Optional.of(entry.path("epoch").asInt()) : Optional.empty();
            offsets.put(
                    new TopicPartition(Agent.text(entry, "topic"), entry.path("partition").asInt()),
                    new OffsetAndMetadata(entry.path("offset").asLong(), epoch, entry.path("metadata").asText("")));
        }
        return offsets;
    }

    /** The same offsets for the groups {@code prefix0}, {@code prefix1}, ...; some hundred at a time. */
    private JsonNode commitMany(JsonNode args) throws Exception {
        Admin admin = of(args);
        Map<TopicPartition, OffsetAndMetadata> offsets = committed(args);
        String prefix = Agent.text(args, "prefix");
        int count = args.path("count").asInt();
        for (int first = 0; first < count; first += AT_ONCE) {
            List<KafkaFuture<Void>> commits = new ArrayList<>();
            for (int group = first; group < Math.min(first + AT_ONCE, count); group++) {
                commits.add(admin.alterConsumerGroupOffsets(prefix + group, offsets).all());
            }
            get(KafkaFuture.allOf(commits.toArray(new KafkaFuture<?>[0])));
        }
        return Agent.JSON.createObjectNode();
    }

    /** What the groups {@code prefix0} to {@code prefix<count-1>} have committed, those without anything left out. */
    private JsonNode groupsOffsets(JsonNode args) throws Exception {
        Admin admin = of(args);
        String prefix = Agent.text(args, "prefix");
        int count = args.path("count").asInt();
        ObjectNode all = Agent.JSON.createObjectNode();
        for (int first = 0; first < count; first += AT_ONCE) {
            Map<String, ListConsumerGroupOffsetsSpec> groups = new HashMap<>();
            for (int group = first; group < Math.min(first + AT_ONCE, count); group++) {
                groups.put(prefix + group, new ListConsumerGroupOffsetsSpec());
            }
            get(admin.listConsumerGroupOffsets(groups).all()).forEach((group, offsets) -> {
                if (!offsets.isEmpty()) {
                    ArrayNode of = all.putArray(group);
                    offsets.forEach((partition, offset) -> of.addObject().put("topic", partition.topic())
                            .put("partition", partition.partition()).put("offset", offset.offset())
                            .put("metadata", offset.metadata()));
                }
            });
        }
        return all;
    }

    private JsonNode deleteGroupOffsets(JsonNode args) throws Exception {
        Set<TopicPartition> partitions = committed(args).keySet();
        get(of(args).deleteConsumerGroupOffsets(Agent.text(args, "group"), partitions).all());
        return Agent.JSON.createObjectNode();
    }

    /** Many topics in one request; waits until the last of them has leaders. */
    private JsonNode createTopics(JsonNode args) throws Exception {
        Admin admin = of(args);
        String prefix = Agent.text(args, "prefix");
        int count = args.path("count").asInt();
        int partitions = args.path("partitions").asInt(1);
        short factor = (short) args.path("replication_factor").asInt(1);
        Map<String, String> configs = texts(args.path("configs"));
        for (int first = 0; first < count; first += AT_ONCE) {
            List<NewTopic> topics = new ArrayList<>();
            for (int topic = first; topic < Math.min(first + AT_ONCE, count); topic++) {
                topics.add(new NewTopic(prefix + topic, partitions, factor).configs(configs));
            }
            get(admin.createTopics(topics).all());
        }
        return awaitLeaders(admin, prefix + (count - 1), partitions);
    }

    private JsonNode unregisterBroker(JsonNode args) throws Exception {
        get(of(args).unregisterBroker(args.path("node").asInt()).all());
        return Agent.JSON.createObjectNode();
    }

    /** A quota, bytes per second, of a client id; {@code null} takes it away. */
    private JsonNode setQuota(JsonNode args) throws Exception {
        ClientQuotaEntity entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, Agent.text(args, "client_id")));
        JsonNode value = args.path("value");
        ClientQuotaAlteration.Op op = new ClientQuotaAlteration.Op(Agent.text(args, "key"), value.isNumber() ? value.asDouble() : null);
        get(of(args).alterClientQuotas(List.of(new ClientQuotaAlteration(entity, List.of(op)))).all());
        return Agent.JSON.createObjectNode();
    }

    private JsonNode groupOffsets(JsonNode args) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> offsets =
                get(of(args).listConsumerGroupOffsets(Agent.text(args, "group")).partitionsToOffsetAndMetadata());
        ArrayNode all = Agent.JSON.createArrayNode();
        offsets.forEach((partition, offset) -> {
            if (offset != null) {
                all.addObject().put("topic", partition.topic()).put("partition", partition.partition())
                        .put("offset", offset.offset()).put("metadata", offset.metadata());
            }
        });
        return all;
    }

    private JsonNode deleteGroup(JsonNode args) throws Exception {
        get(of(args).deleteConsumerGroups(List.of(Agent.text(args, "group"))).all());
        return Agent.JSON.createObjectNode();
    }

    /** Bytes of the topic's segments on its leaders: stored batches, as compressed as they are. */
    private JsonNode logSize(JsonNode args) throws Exception {
        Admin admin = of(args);
        String topic = Agent.text(args, "topic");
        Map<Integer, Integer> leaders = new HashMap<>();
        get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic).partitions()
                .forEach(info -> leaders.put(info.partition(), info.leader().id()));
        long bytes = 0;
        Map<Integer, Map<String, LogDirDescription>> nodes = get(admin.describeLogDirs(new HashSet<>(leaders.values())).allDescriptions());
        for (Map.Entry<Integer, Map<String, LogDirDescription>> node : nodes.entrySet()) {
            for (LogDirDescription dir : node.getValue().values()) {
                for (Map.Entry<TopicPartition, ReplicaInfo> replica : dir.replicaInfos().entrySet()) {
                    TopicPartition at = replica.getKey();
                    if (at.topic().equals(topic) && leaders.get(at.partition()).equals(node.getKey())) {
                        bytes += replica.getValue().size();
                    }
                }
            }
        }
        return Agent.JSON.createObjectNode().put("bytes", bytes);
    }

    private static Map<TopicPartition, Long> offsetsByPartition(JsonNode args) {
        Map<TopicPartition, Long> offsets = new HashMap<>();
        for (JsonNode entry : args.path("offsets")) {
            offsets.put(new TopicPartition(Agent.text(entry, "topic"), entry.path("partition").asInt()), entry.path("offset").asLong());
        }
        return offsets;
    }

    private static Map<String, String> texts(JsonNode object) {
        Map<String, String> map = new HashMap<>();
        object.properties().forEach(field -> map.put(field.getKey(), field.getValue().asText()));
        return map;
    }

    private static List<Integer> ints(JsonNode array) {
        List<Integer> list = new ArrayList<>();
        array.forEach(value -> list.add(value.asInt()));
        return list;
    }
}
