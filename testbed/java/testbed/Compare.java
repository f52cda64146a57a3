package testbed;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;

/**
 * The judge: is the target topic the source topic, record by record, partition by partition?
 *
 * <p>"Same" means: as many partitions, and in each partition the same records in the same order, none missing, none
 * twice, with equal key, value, headers (order and repeats too) and timestamp; null and empty are different. It is
 * said only after each pair was compared byte by byte and both ends stood still for {@code quiet_ms} after the last
 * one. Offsets need not be equal. While the target is behind, the judge waits, at most {@code wait_ms} in all.
 *
 * <p>After a difference both sides are lined up again within {@link #LOOK} records, so that one missing record is one
 * difference and not all that follow. Differences further apart than that are still differences, only their kind is
 * then a guess. Memory is bounded by the look-ahead and by {@link #REMEMBER}.
 */
final class Compare {
    /** How far both sides are read ahead to line them up after a difference. */
    private static final int LOOK = 4_096;

    /** How many unpaired records are remembered per partition to tell missing, repeated and moved apart. */
    private static final int REMEMBER = 200_000;

    /** How long a record that only the target shows may be on its way to the source's high watermark. */
    private static final long GRACE_NANOS = 2_000_000_000L;

    private static final int DIFFERENCES_SHOWN = 5;

    private final String sourceBootstrap;
    private final String sourceTopic;
    private final String sourceIsolation;
    private final String targetBootstrap;
    private final String targetTopic;
    private final String targetIsolation;
    private final boolean timestamps;
    private final JsonNode sourceFrom;
    private final JsonNode targetFrom;
    private final long quietNanos;
    private final long deadline;
    private final long begun = System.nanoTime();

    Compare(JsonNode args) {
        sourceBootstrap = Agent.text(args, "source");
        sourceTopic = Agent.text(args, "source_topic");
        sourceIsolation = args.path("source_isolation").asText("read_committed");
        targetBootstrap = Agent.text(args, "target");
        targetTopic = Agent.text(args, "target_topic");
        targetIsolation = args.path("target_isolation").asText("read_committed");
        timestamps = args.path("timestamps").asBoolean(true);
        sourceFrom = args.path("source_from");
        targetFrom = args.path("target_from");
        quietNanos = args.path("quiet_ms").asLong(500) * 1_000_000;
        deadline = begun + args.path("wait_ms").asLong(0) * 1_000_000;
    }

    JsonNode run() throws Exception {
        int sourcePartitions = partitions(sourceBootstrap, sourceTopic);
        int targetPartitions = partitions(targetBootstrap, targetTopic);
        while (targetPartitions < sourcePartitions && System.nanoTime() < deadline) {
            Thread.sleep(50);
            targetPartitions = partitions(targetBootstrap, targetTopic);
        }
        ObjectNode report = Agent.JSON.createObjectNode();
        report.put("source_partitions", sourcePartitions).put("target_partitions", targetPartitions);
        if (sourcePartitions == 0) {
            throw new IllegalStateException("the source has no topic " + sourceTopic + ": nothing can be judged");
        }

        ExecutorService pool = Executors.newFixedThreadPool(Math.min(8, sourcePartitions));
        List<Future<Outcome>> futures = new ArrayList<>();
        try {
            for (int partition = 0; partition < Math.min(sourcePartitions, targetPartitions); partition++) {
                int index = partition;
                futures.add(pool.submit((Callable<Outcome>) () -> new Judge(index).judge()));
            }
            Outcome all = new Outcome();
            ArrayNode perPartition = report.putArray("partitions");
            for (Future<Outcome> future : futures) {
                Outcome one = future.get();
                all.add(one);
                perPartition.add(one.counts(Agent.JSON.createObjectNode()));
            }
            // Records of partitions the target lacks are missing, and are counted.
            for (int partition = targetPartitions; partition < sourcePartitions; partition++) {
                all.missing += count(partition);
            }
            report.put("same", sourcePartitions == targetPartitions && all.same());
            all.counts(report);
            ArrayNode shown = report.putArray("differences");
            all.shown.stream().limit(DIFFERENCES_SHOWN).forEach(shown::add);
        } finally {
            pool.shutdownNow();
        }
        report.put("elapsed_ms", (System.nanoTime() - begun) / 1_000_000);
        return report;
    }

    /** 0 if there is no such topic. */
    private static int partitions(String bootstrap, String topic) {
        try (KafkaConsumer<byte[], byte[]> consumer = Tape.consumer(bootstrap, "read_committed")) {
            var infos = consumer.listTopics().get(topic);
            return infos == null ? 0 : infos.size();
        }
    }

    private long count(int partition) {
        long count = 0;
        try (Tape tape = new Tape(sourceBootstrap, sourceIsolation, new TopicPartition(sourceTopic, partition), -1)) {
            while (tape.peek(0) != null) {
                tape.advance();
                count++;
            }
        }
        return count;
    }

    /** What was found, in one partition or in all. */
    private static final class Outcome {
        long source;
        long target;
        long matched;
        long missing;
        long repeated;
        long foreign;
        long altered;
        long moved;
        boolean guessed;
        final List<ObjectNode> shown = new ArrayList<>();

        boolean same() {
            return matched == source && matched == target && missing + repeated + foreign + altered + moved == 0 && shown.isEmpty();
        }

        void add(Outcome other) {
            source += other.source;
            target += other.target;
            matched += other.matched;
            missing += other.missing;
            repeated += other.repeated;
            foreign += other.foreign;
            altered += other.altered;
            moved += other.moved;
            guessed |= other.guessed;
            shown.addAll(other.shown);
        }

        ObjectNode counts(ObjectNode into) {
            return into.put("source_records", source).put("target_records", target).put("matched", matched)
                    .put("missing", missing).put("repeated", repeated).put("foreign", foreign)
                    .put("altered", altered).put("moved", moved).put("guessed", guessed);
        }
    }

    /** One partition. */
    private final class Judge {
        private final int partition;
        private final Outcome out = new Outcome();
        /** Digest to (times unpaired in the source) minus (times unpaired in the target). */
        private final Map<Long, Integer> unpaired = new HashMap<>();

        Judge(int partition) {
            this.partition = partition;
        }

        Outcome judge() throws InterruptedException {
            TopicPartition from = new TopicPartition(sourceTopic, partition);
            TopicPartition to = new TopicPartition(targetTopic, partition);
            try (Tape source = new Tape(sourceBootstrap, sourceIsolation, from, offset(sourceFrom));
                    Tape target = new Tape(targetBootstrap, targetIsolation, to, offset(targetFrom))) {
                while (true) {
                    ConsumerRecord<byte[], byte[]> s = source.peek(0);
                    ConsumerRecord<byte[], byte[]> t = target.peek(0);
                    if (s != null && t != null) {
                        if (difference(s, t) == null) {
                            source.advance();
                            target.advance();
                            out.matched++;
                            out.source++;
                            out.target++;
                        } else {
                            settle(source, target);
                            lineUp(source, target);
                        }
                    } else if (s != null) {
                        if (System.nanoTime() >= deadline) {
                            missingTail(source, target);
                        } else {
                            Thread.sleep(5);
                        }
                    } else if (t != null) {
                        extraTail(source, target);
                    } else if (quiet(source, target)) {
                        break;
                    }
                }
            }
            classify();
            return out;
        }

        private long offset(JsonNode from) {
            return from.isArray() && from.size() > partition ? from.get(partition).asLong() : -1;
        }

        /** Whether both ends stand still for a while. */
        private boolean quiet(Tape source, Tape target) throws InterruptedException {
            long s = source.endNow();
            long t = target.endNow();
            long until = System.nanoTime() + quietNanos;
            while (System.nanoTime() < until) {
                Thread.sleep(Math.min(50, Math.max(1, quietNanos / 4_000_000)));
                if (source.endNow() != s || target.endNow() != t) {
                    return false;
                }
            }
            return source.peek(0) == null && target.peek(0) == null;
        }

        /** The verdict stands; only to name the difference well, a target that still grows gets its time. */
        private void settle(Tape source, Tape target) throws InterruptedException {
            int wanted = Math.min(LOOK, source.window(LOOK).size());
            while (target.window(LOOK).size() < wanted && System.nanoTime() < deadline) {
                long end = target.endNow();
                Thread.sleep(Math.max(1_000, quietNanos / 1_000_000));
                if (target.endNow() == end) {
                    return;
                }
            }
        }

        /** At a difference: finds the nearest place at which both sides go on alike, and books what lies before it. */
        private void lineUp(Tape source, Tape target) {
            List<ConsumerRecord<byte[], byte[]>> s = source.window(LOOK);
            List<ConsumerRecord<byte[], byte[]>> t = target.window(LOOK);
            Map<Long, Integer> inTarget = new HashMap<>();
            for (int at = t.size() - 1; at >= 0; at--) {
                inTarget.put(digest(t.get(at)), at);
            }
            Set<Long> inSource = new HashSet<>();
            int skipSource = -1;
            int skipTarget = -1;
            for (int at = 0; at < s.size(); at++) {
                long digest = digest(s.get(at));
                inSource.add(digest);
                Integer found = inTarget.get(digest);
                if (found != null && (skipSource < 0 || at + found < skipSource + skipTarget)) {
                    skipSource = at;
                    skipTarget = found;
                }
            }
            if (skipSource == 0 && skipTarget == 0) {
                // Two records that differ have one digest: a pair, and a sensation.
                skipSource = 1;
                skipTarget = 1;
            } else if (skipSource < 0) {
                // Nothing in sight is alike. All of it, if both windows end here; else pair what pairs and go on.
                skipSource = Math.min(s.size(), s.size() < LOOK && t.size() < LOOK ? s.size() : Math.min(s.size(), t.size()));
                skipTarget = Math.min(t.size(), s.size() < LOOK && t.size() < LOOK ? t.size() : Math.min(s.size(), t.size()));
            }

            show(s, t, skipSource, skipTarget, inTarget, inSource);
            int pairs = Math.min(skipSource, skipTarget);
            for (int at = 0; at < Math.max(skipSource, skipTarget); at++) {
                boolean altered = at < pairs && !inTarget.containsKey(digest(s.get(at))) && !inSource.contains(digest(t.get(at)));
                if (altered) {
                    out.altered++;
                    continue;
                }
                if (at < skipSource) {
                    book(s.get(at), 1);
                }
                if (at < skipTarget) {
                    book(t.get(at), -1);
                }
            }
            for (int at = 0; at < skipSource; at++) {
                source.advance();
                out.source++;
            }
            for (int at = 0; at < skipTarget; at++) {
                target.advance();
                out.target++;
            }
        }

        private void missingTail(Tape source, Tape target) {
            ConsumerRecord<byte[], byte[]> s = source.peek(0);
            if (out.shown.size() < DIFFERENCES_SHOWN) {
                long behind = Math.max(0, source.endNow() - s.offset());
                note("missing", s.offset(), target.endNow(), "",
                        "the target ends here; the source goes on for another " + behind + " offsets (waited "
                                + (System.nanoTime() - begun) / 1_000_000 + " ms)");
            }
            // One by one: the target may still grow while we count.
            if (target.peek(0) == null) {
                book(s, 1);
                source.advance();
                out.source++;
            }
        }

        private void extraTail(Tape source, Tape target) throws InterruptedException {
            // What a mirror has copied was visible in the source; a new leader may show it again a moment later only.
            long until = System.nanoTime() + (out.shown.isEmpty() ? GRACE_NANOS : 0);
            do {
                source.endNow();
                if (source.peek(0) != null) {
                    return;
                }
                Thread.sleep(out.shown.isEmpty() ? 50 : 0);
            } while (System.nanoTime() < until);
            ConsumerRecord<byte[], byte[]> t = target.peek(0);
            if (out.shown.size() < DIFFERENCES_SHOWN) {
                note("extra", source.endNow(), t.offset(), "", "the source ends here, the target goes on with " + brief(t));
            }
            book(t, -1);
            target.advance();
            out.target++;
        }

        private void book(ConsumerRecord<byte[], byte[]> record, int by) {
            long digest = digest(record);
            if (unpaired.size() >= REMEMBER && !unpaired.containsKey(digest)) {
                out.guessed = true;
                if (by > 0) {
                    out.missing++;
                } else {
                    out.foreign++;
                }
                return;
            }
            if (by < 0 && unpaired.getOrDefault(digest, 0) > 0 || by > 0 && unpaired.getOrDefault(digest, 0) < 0) {
                out.moved++; // on both sides, in different places
            }
            unpaired.merge(digest, by, (a, b) -> a + b == 0 ? null : a + b);
        }

        /** Unpaired records: the source's are missing; the target's repeat the source, if the source has them, or are foreign. */
        private void classify() {
            Map<Long, Integer> extra = new HashMap<>();
            unpaired.forEach((digest, times) -> {
                if (times > 0) {
                    out.missing += times;
                } else {
                    extra.put(digest, -times);
                }
            });
            if (extra.isEmpty()) {
                return;
            }
            TopicPartition from = new TopicPartition(sourceTopic, partition);
            try (Tape source = new Tape(sourceBootstrap, sourceIsolation, from, offset(sourceFrom))) {
                long end = source.endNow();
                for (ConsumerRecord<byte[], byte[]> s = source.peek(0); s != null && s.offset() < end && !extra.isEmpty(); s = source.peek(0)) {
                    Integer times = extra.remove(digest(s));
                    out.repeated += times == null ? 0 : times;
                    source.advance();
                }
            }
            extra.values().forEach(times -> out.foreign += times);
        }

        private void show(List<ConsumerRecord<byte[], byte[]>> s, List<ConsumerRecord<byte[], byte[]>> t, int skipSource,
                int skipTarget, Map<Long, Integer> inTarget, Set<Long> inSource) {
            if (out.shown.size() >= DIFFERENCES_SHOWN) {
                return;
            }
            ConsumerRecord<byte[], byte[]> first = s.get(0);
            ConsumerRecord<byte[], byte[]> instead = t.get(0);
            boolean later = inTarget.containsKey(digest(first));
            boolean known = inSource.contains(digest(instead));
            if (later && known) {
                note("moved", first.offset(), instead.offset(), "order",
                        "the target has here what the source has elsewhere; it has this record at target offset "
                                + t.get(inTarget.get(digest(first))).offset());
            } else if (known) {
                note("missing", first.offset(), instead.offset(), "",
                        skipSource + " records from here are missing; the target goes on with " + brief(instead));
            } else if (later) {
                note("extra", first.offset(), instead.offset(), "",
                        skipTarget + " records from here are not next in the source; the first is " + brief(instead));
            } else {
                String[] what = difference(first, instead);
                note("altered", first.offset(), instead.offset(), what[0], what[1]);
            }
        }

        private void note(String kind, long sourceOffset, long targetOffset, String field, String detail) {
            out.shown.add(Agent.JSON.createObjectNode().put("partition", partition).put("kind", kind)
                    .put("source_offset", sourceOffset).put("target_offset", targetOffset).put("field", field).put("detail", detail));
        }
    }

    /** Field and detail of the first difference between two records, or null. */
    private String[] difference(ConsumerRecord<byte[], byte[]> s, ConsumerRecord<byte[], byte[]> t) {
        if (!Arrays.equals(s.key(), t.key())) {
            return new String[] {"key", bytes(s.key(), t.key())};
        }
        if (!Arrays.equals(s.value(), t.value())) {
            return new String[] {"value", bytes(s.value(), t.value())};
        }
        if (timestamps && s.timestamp() != t.timestamp()) {
            return new String[] {"timestamp", "source " + s.timestamp() + ", target " + t.timestamp()};
        }
        Header[] left = s.headers().toArray();
        Header[] right = t.headers().toArray();
        for (int at = 0; at < Math.min(left.length, right.length); at++) {
            if (!left[at].key().equals(right[at].key())) {
                return new String[] {"header", "header " + at + " is named '" + left[at].key() + "' in the source, '" + right[at].key() + "' in the target"};
            }
            if (!Arrays.equals(left[at].value(), right[at].value())) {
                return new String[] {"header", "header " + at + " ('" + left[at].key() + "'): " + bytes(left[at].value(), right[at].value())};
            }
        }
        if (left.length != right.length) {
            return new String[] {"header", "the source has " + left.length + " headers, the target " + right.length};
        }
        return null;
    }

    private static String bytes(byte[] left, byte[] right) {
        if (left == null || right == null || left.length != right.length) {
            return "source " + size(left) + ", target " + size(right);
        }
        int at = Arrays.mismatch(left, right);
        return String.format("%d bytes; byte %d is 0x%02x in the source, 0x%02x in the target", left.length, at, left[at], right[at]);
    }

    private static String size(byte[] bytes) {
        return bytes == null ? "null" : bytes.length + " bytes";
    }

    private static String brief(ConsumerRecord<byte[], byte[]> record) {
        String key = record.key() == null ? "null" : "'" + new String(record.key(), StandardCharsets.ISO_8859_1).replaceAll("[^ -~]", ".") + "'";
        return "key " + (key.length() > 40 ? key.substring(0, 40) + "..." : key) + ", value " + size(record.value()) + ", timestamp " + record.timestamp();
    }

    /** 64 bits over all that is compared; tells kinds of difference apart, never says "same". */
    private long digest(ConsumerRecord<byte[], byte[]> record) {
        long digest = 1;
        digest = mix(digest, record.key());
        digest = mix(digest, record.value());
        digest = Fill.Rng.mix(digest + (timestamps ? record.timestamp() : 0));
        for (Header header : record.headers()) {
            digest = mix(digest, header.key().getBytes(StandardCharsets.UTF_8));
            digest = mix(digest, header.value());
        }
        return digest;
    }

    private static long mix(long digest, byte[] bytes) {
        digest = Fill.Rng.mix(digest * 31 + (bytes == null ? -1 : bytes.length));
        if (bytes == null) {
            return digest;
        }
        long word = 0;
        for (int at = 0; at < bytes.length; at++) {
            word = word << 8 | (bytes[at] & 0xff);
            if ((at & 7) == 7) {
                digest = Fill.Rng.mix(digest ^ word) + 0x9E3779B97F4A7C15L;
                word = 0;
            }
        }
        return Fill.Rng.mix(digest ^ word);
    }
}
