package testbed;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/** Access rules of a cluster. */
final class Rules {
    private final Admins admins;

    Rules(Admins admins) {
        this.admins = admins;
    }

    Map<String, Agent.Op> ops() {
        Map<String, Agent.Op> all = new HashMap<>();
        all.put("create_acls", (args, stop) -> create(args));
        all.put("acls", (args, stop) -> describe(args));
        all.put("delete_acls", (args, stop) -> delete(args));
        return all;
    }

    private JsonNode create(JsonNode args) throws Exception {
        Admins.get(admins.of(args).createAcls(bindings(args)).all());
        return Agent.JSON.createObjectNode();
    }

    private JsonNode delete(JsonNode args) throws Exception {
        List<AclBindingFilter> filters = new ArrayList<>();
        bindings(args).forEach(binding -> filters.add(binding.toFilter()));
        Admins.get(admins.of(args).deleteAcls(filters).all());
        return Agent.JSON.createObjectNode();
    }

    private static List<AclBinding> bindings(JsonNode args) {
        List<AclBinding> bindings = new ArrayList<>();
        for (JsonNode rule : args.path("rules")) {
            bindings.add(new AclBinding(
                    new ResourcePattern(
                            ResourceType.fromString(Agent.text(rule, "resource_type")),
                            Agent.text(rule, "name"),
                            PatternType.fromString(Agent.text(rule, "pattern"))),
                    new AccessControlEntry(
                            Agent.text(rule, "principal"),
                            Agent.text(rule, "host"),
                            AclOperation.fromString(Agent.text(rule, "operation")),
                            AclPermissionType.fromString(Agent.text(rule, "permission")))));
        }
        return bindings;
    }

    /** All rules of the cluster, in the words that {@code create_acls} takes. */
    private JsonNode describe(JsonNode args) throws Exception {
        ArrayNode all = Agent.JSON.createArrayNode();
        for (AclBinding binding : Admins.get(admins.of(args).describeAcls(AclBindingFilter.ANY).values())) {
            all.addObject()
                    .put("resource_type", binding.pattern().resourceType().name())
                    .put("name", binding.pattern().name())
                    .put("pattern", binding.pattern().patternType().name())
                    .put("principal", binding.entry().principal())
                    .put("host", binding.entry().host())
                    .put("operation", binding.entry().operation().name())
                    .put("permission", binding.entry().permissionType().name());
        }
        return all;
    }
}
