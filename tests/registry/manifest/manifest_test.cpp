// SPDX-License-Identifier: Apache-2.0
#include "registry/manifest/manifest.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "registry/manifest/decode.hpp"
#include "tests/registry/manifest/collector.hpp"

namespace meshdns::registry {
namespace {

const std::string kEntry =
    "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: api}\n"
    "spec: {hosts: [a.example.org], addresses: [10.0.0.1], resolution: STATIC}\n";

std::string entry_named(const std::string& name) {
  std::string text = kEntry;
  return text.replace(text.find("{name: api"), 10, "{name: " + name);
}

TEST(ManifestTest, DeliversEveryDocumentWithItsLine) {
  const Collected collected =
      read("# nothing\n---\n" + kEntry + "---\n---\n# comment\n" + entry_named("b") + "...\n");
  EXPECT_TRUE(collected.result);
  EXPECT_EQ(collected.all(), "");
  ASSERT_EQ(collected.resources.size(), 2U);
  EXPECT_EQ(collected.resources[0].line, 3U);
  EXPECT_EQ(collected.resources[1].line, 10U);
}

TEST(ManifestTest, EmptyTextsHoldNothing) {
  for (const std::string_view text : {"", "\n", "# only a comment\n", "---\n", "---\n---\n",
                                      "null\n", "\xEF\xBB\xBF", "  \n\t\n"}) {
    const Collected collected = read(text);
    EXPECT_TRUE(collected.result) << text;
    EXPECT_TRUE(collected.resources.empty() && collected.findings.empty()) << collected.all();
  }
}

TEST(ManifestTest, SetsClusterNetworkAndNamespace) {
  const auto entry = only<ServiceEntry>(
      read(kEntry, {.path = "a", .cluster = "east", .network = "net", .default_namespace = "own"}));
  EXPECT_EQ(entry.meta.cluster, "east");
  EXPECT_EQ(entry.meta.network, "net");
  EXPECT_EQ(entry.meta.ns, "own");
}

TEST(ManifestTest, AnInvalidObjectDoesNotAffectOthers) {
  const std::string bad =
      "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: bad}\nspec: {}\n";
  const Collected collected = read(kEntry + "---\n" + bad + "---\n" + entry_named("c"));
  EXPECT_TRUE(collected.result);
  EXPECT_EQ(collected.resources.size(), 2U);
  EXPECT_EQ(collected.refused, std::vector<std::string>{"6 ServiceEntry default/bad"});
  EXPECT_EQ(collected.all(),
            "test.yaml:9: error: ServiceEntry default/bad: spec.hosts: needs at least one "
            "host\n");
}

TEST(ManifestTest, ReadsTheItemsOfLists) {
  std::string items;
  for (const char* name : {"a", "b"}) {
    std::string text = indent(entry_named(name), 2);
    text[0] = '-';
    items += text;
  }
  for (const std::string_view head :
       {"apiVersion: v1\nkind: List\n",
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntryList\n",
        "metadata: {}\napiVersion: v1\nkind: List\n"}) {
    const Collected collected = read(std::string(head) + "items:\n" + items);
    EXPECT_EQ(collected.all(), "") << head;
    ASSERT_EQ(collected.resources.size(), 2U) << head;
    const auto lines = static_cast<std::uint32_t>(std::ranges::count(head, '\n'));
    EXPECT_EQ(collected.resources[0].line, lines + 2);
    EXPECT_EQ(collected.resources[1].line, lines + 6);
    // The kind may come after the items.
    EXPECT_EQ(read("items:\n" + items + std::string(head)).resources.size(), 2U);
  }
}

TEST(ManifestTest, ItemsInheritTheTypeOfTheirList) {
  const Collected collected = read(
      R"({"kind": "ServiceEntryList", "apiVersion": "networking.istio.io/v1", "metadata": {},
 "items": [
  {"metadata": {"name": "a"}, "spec": {"hosts": ["a.example.org"]}},
  {"metadata": {"name": "b"}, "spec": {"hosts": ["b_.example.org"]}},
  {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "c"}},
  {"metadata": {"name": "d", "name": "e"}, "spec": {"hosts": ["d.example.org"]}}]})");
  EXPECT_EQ(collected.resources.size(), 2U);
  EXPECT_EQ(collected.places(),
            (std::vector<std::string>{"4 error spec.hosts[0]", "6 error metadata.name"}));
  EXPECT_EQ(collected.refused,
            (std::vector<std::string>{"4 ServiceEntry default/b", "6 ServiceEntry default/d"}));
}

TEST(ManifestTest, EmptyAndNullListsHoldNothing) {
  for (const std::string_view items : {"items: []", "items:", "items: null", "metadata: {}"}) {
    const Collected collected = read("apiVersion: v1\nkind: List\n" + std::string(items) + "\n");
    EXPECT_TRUE(collected.resources.empty());
    EXPECT_EQ(collected.all(), "");
  }
}

TEST(ManifestTest, ReportsErrorsOfTheListItself) {
  const Collected collected = read(
      "apiVersion: v1\nkind: List\nkind: List\nitems:\n- apiVersion: v1\n  kind: Namespace\n"
      "  metadata: {name: a}\n");
  EXPECT_EQ(collected.places(), std::vector<std::string>{"3 error kind"});
  EXPECT_EQ(collected.resources.size(), 1U);
}

TEST(ManifestTest, JsonAndYamlGiveEqualResources) {
  const std::string json = R"({
  "apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry",
  "metadata": {"name": "api", "labels": {"a": "b"}, "creationTimestamp": null},
  "spec": {"hosts": ["a.example.org", "\u0062.example.org"], "addresses": ["10.0.0.1"],
    "ports": [{"number": 443, "name": "tls", "protocol": "TLS"}],
    "resolution": "STATIC", "endpoints": [{"address": "10.0.0.2", "ports": {"tls": 8443}}]}})";
  const std::string yaml = R"(apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: api, labels: {a: b}, creationTimestamp: null}
spec:
  hosts: [a.example.org, "\x62.example.org"]
  addresses: [10.0.0.1]
  ports:
  - number: 443
    name: tls
    protocol: TLS
  resolution: STATIC
  endpoints: [{address: 10.0.0.2, ports: {tls: 8443}}]
)";
  const auto from_json = only<ServiceEntry>(read(json));
  EXPECT_EQ(from_json, only<ServiceEntry>(read(yaml)));
  EXPECT_EQ(from_json.hosts[1], "b.example.org");
  // JSON is YAML nearly always; behind a separator it is read as such.
  EXPECT_EQ(from_json, only<ServiceEntry>(read("# YAML\n" + json)));
}

TEST(ManifestTest, FindingsHaveTheSameLinesInJson) {
  const Collected collected = read(R"({
  "apiVersion": "networking.istio.io/v1",
  "kind": "ServiceEntry",
  "metadata": {"name": "api"},
  "spec": {
    "hosts": [
      "good.example.org",
      "*.*.example.org"
    ],
    "hots": [],
    "resolution": 7
  }
})");
  EXPECT_EQ(collected.places(),
            (std::vector<std::string>{"10 warning spec.hots", "11 error spec.resolution",
                                      "8 error spec.hosts[1]"}));
}

TEST(ManifestTest, ReadsConsecutiveJsonTexts) {
  const std::string one = R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}})";
  const std::string two = R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":"b"}})";
  const std::string yaml = "apiVersion: v1\nkind: Namespace\nmetadata: {name: c}\n";
  EXPECT_EQ(read(one + two).resources.size(), 2U);
  EXPECT_EQ(read(one + "\n" + two + "\n").resources.size(), 2U);
  EXPECT_EQ(read("---\n" + one + "\n---\n" + two + "\n---\n").resources.size(), 2U);
  EXPECT_EQ(read("[" + one + ",\n" + two + "]").resources.size(), 2U);
  const Collected mixed = read(one + "\n---\n" + yaml);
  ASSERT_EQ(mixed.resources.size(), 2U) << mixed.all();
  EXPECT_EQ(mixed.resources[1].line, 3U);
  EXPECT_EQ(read(yaml + "---\n" + one + "\n").resources.size(), 2U);
  EXPECT_EQ(read("{apiVersion: v1, kind: Namespace, metadata: {name: a}}").resources.size(), 1U);
}

TEST(ManifestTest, IgnoresIrrelevantKindsSilently) {
  for (const std::string_view kind :
       {"EnvoyFilter", "DestinationRule", "Gateway", "Deployment", "ConfigMap", "Secret",
        "ServiceAccount", "CustomResourceDefinition", "HTTPRoute", "WorkloadGroup"}) {
    const Collected collected =
        read("apiVersion: any/v1\nkind: " + std::string(kind) + "\nmetadata: {name: a}\nspec: 7\n");
    EXPECT_EQ(collected.all(), "");
    EXPECT_TRUE(collected.resources.empty() && collected.refused.empty());
  }
}

TEST(ManifestTest, IgnoresOtherProjectsKindsSilently) {
  for (const auto& [api_version, kind] :
       {std::pair("example.org/v1", "Gadget"), std::pair("kyverno.io/v1", "ClusterPolicy"),
        std::pair("serving.knative.dev/v1", "Service"), std::pair("apps/v1", "StatefulSets"),
        std::pair("operator.istio.io/v1", "Thing"), std::pair("batch/v1", "Servce")}) {
    const Collected collected = read("apiVersion: " + std::string(api_version) + "\nkind: " + kind +
                                     "\nmetadata: {name: a}\nspec: {a: 1, a: 2}\n");
    EXPECT_EQ(collected.all(), "");
    EXPECT_TRUE(collected.resources.empty() && collected.refused.empty());
  }
}

TEST(ManifestTest, FaultsOfIgnoredKindsAreTheirReaders) {
  const std::string ignored =
      "apiVersion: apps/v1\nkind: Deployment\nspec: {a: 1, a: 2, b: !x 1}\n";
  EXPECT_EQ(read(ignored).all(), "");
  EXPECT_EQ(read(ignored + "kind: Service\n").places(),
            (std::vector<std::string>{"3 error spec.b", "3 error spec.a", "4 error kind"}))
      << "which kind it is, is in doubt";
}

TEST(ManifestTest, GuessesOnlyWhatIsNearAndMissing) {
  const auto says = [](std::string_view spec) {
    return read("apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {clusterIP: None, " +
                std::string(spec) + "}\n")
        .all();
  };
  EXPECT_NE(says("selectors: {}").find("did you mean \"selector\"?"), std::string::npos);
  EXPECT_NE(says("prots: []").find("did you mean \"ports\"?"), std::string::npos);
  for (const std::string_view spec : {"tier: a", "labels: {}", "name: a", "namespace: a",
                                      "clusterIp: a", "replicas: 1", "x: 1"}) {
    EXPECT_NE(says(spec).find("unknown field"), std::string::npos) << spec;
    EXPECT_EQ(says(spec).find("did you mean"), std::string::npos) << says(spec);
  }
}

TEST(ManifestTest, ReportsUnsupportedTypes) {
  struct Case {
    std::string api_version;
    std::string kind;
    std::string place;
    std::string says;
    bool is_refused;
  };
  const std::vector<Case> cases = {
      {"v1", "Servce", "1 warning ", "did you mean \"Service\"?", false},
      {"networking.istio.io/v1", "ServiceEntri", "1 warning ", "did you mean \"ServiceEntry\"?",
       false},
      {"networking.istio.io/v1", "virtualservice", "1 warning ", "did you mean \"VirtualService\"?",
       false},
      {"discovery.k8s.io/v1", "Gadget", "1 warning ", "unknown kind; the object is ignored", false},
      {"networking.istio.oi/v1", "Gadget", "1 warning apiVersion",
       "did you mean \"networking.istio.io\"?", false},
      {"networking.istio.oi/v1", "ServiceEntry", "1 warning apiVersion",
       "did you mean \"networking.istio.io\"?", false},
      {"example.org/v1", "ServiceEntry", "1 warning apiVersion", "the object is ignored", false},
      {"networking.istio.io/v2", "ServiceEntry", "1 error apiVersion",
       "networking.istio.io/v1beta1", true},
      {"networking.istio.io", "ServiceEntry", "1 error apiVersion", "networking.istio.io/v1", true},
      {"v1", "ServiceEntry", "1 error apiVersion", "networking.istio.io/v1", true},
      {"security.istio.io/v1", "Sidecar", "1 error apiVersion", "networking.istio.io/v1", true},
      {"apps/v1", "Service", "1 error apiVersion", "only v1", true},
      {"v2", "Service", "1 error apiVersion", "supported are v1", true},
      {"discovery.k8s.io/v1alpha1", "EndpointSlice", "1 error apiVersion", "v1beta1", true},
  };
  for (const Case& c : cases) {
    const Collected collected = read("apiVersion: " + c.api_version + "\nkind: " + c.kind +
                                     "\nmetadata: {name: a}\nspec: {hosts: [a.example.org]}\n");
    EXPECT_EQ(collected.places(), std::vector<std::string>{c.place}) << c.kind;
    EXPECT_TRUE(collected.says(c.says)) << collected.all();
    EXPECT_TRUE(collected.resources.empty());
    EXPECT_EQ(collected.refused.size(), c.is_refused ? 1U : 0U);
  }
}

TEST(ManifestTest, ReportsDocumentsThatAreNotObjects) {
  struct Case {
    std::string text;
    std::string place;
  };
  for (const Case& c : std::vector<Case>{
           {"metadata: {name: a}\n", "1 error kind"},
           {"\nkind: Service\nmetadata: {name: a}\n", "2 error apiVersion"},
           {"just text\n", "1 error "},
           {"42\n", "1 error "},
           {"- a\n", "1 error "},
           {"kind: 7\napiVersion: v1\n", "1 error kind"},
           {"\"\"\n", "1 error "},
       }) {
    const Collected collected = read(c.text);
    EXPECT_EQ(collected.places(), std::vector<std::string>{c.place}) << c.text << collected.all();
    EXPECT_TRUE(collected.resources.empty());
  }
}

TEST(ManifestTest, ObjectDefinedTwiceIsAWarning) {
  const Collected collected = read(kEntry + "---\n" + entry_named("b") + "---\n" + kEntry);
  EXPECT_EQ(collected.resources.size(), 3U);
  EXPECT_EQ(collected.all(),
            "test.yaml:11: warning: ServiceEntry default/api: the object is defined again, first "
            "on line 1; the later one counts\n");
}

TEST(ManifestTest, SyntaxErrorKeepsEarlierObjects) {
  const Collected collected =
      read(kEntry + "---\nkind: Service\nmetadata: {name: [}\n---\n" + kEntry);
  EXPECT_FALSE(collected.result);
  EXPECT_EQ(collected.resources.size(), 1U);
  EXPECT_EQ(collected.places(), std::vector<std::string>{"7 error "});
  EXPECT_TRUE(collected.result.error().message.starts_with("test.yaml:7: "));
}

TEST(DecodeTest, AServiceWithoutAnAddressIsAManifestUnlessItIsOfTheApi) {
  const auto is_manifest = [](std::string_view spec, bool from_file) {
    JsonParser parser;
    const auto object =
        parser.parse(R"({"apiVersion":"v1","kind":"Service","metadata":{"name":"api"},"spec":{)" +
                     std::string(spec) + "}}");
    const ManifestOptions options{
        .path = "test", .cluster = "", .network = "", .from_file = from_file};
    const Decoded decoded = decode_object(**object, {}, options, [](Finding&&) {});
    return std::get<KubeService>(*decoded.resource).is_manifest;
  };
  const std::string_view ports = R"("ports":[{"port":80}])";
  EXPECT_TRUE(is_manifest(ports, true));
  EXPECT_FALSE(is_manifest(ports, false));
  EXPECT_TRUE(is_manifest(R"("clusterIP":"")", true));
  EXPECT_TRUE(is_manifest(R"("clusterIP":"0.0.0.0")", true));
  EXPECT_FALSE(is_manifest(R"("clusterIP":"None")", true));
  EXPECT_FALSE(is_manifest(R"("clusterIP":"10.96.0.1")", true));
  EXPECT_FALSE(is_manifest(R"("type":"ExternalName","externalName":"a.example.org")", true));
}

TEST(DecodeTest, ObjectsOfTheApiAreReadWithoutWarnings) {
  JsonParser parser;
  ManifestOptions options{.path = "kubernetes", .cluster = "east", .network = "net"};
  options.from_file = false;
  std::vector<std::string> findings;
  const FindingListener listener = [&](Finding&& finding) {
    findings.push_back(finding.to_string());
  };
  for (int round = 0; round < 3; ++round) {
    const auto event = parser.parse(
        R"({"type":"ADDED","object":{"kind":"Service","apiVersion":"v1","metadata":{"name":"api",
        "namespace":"shop","brandNew":1},"spec":{"clusterIP":"10.96.0.1","brandNew":{}}}})");
    ASSERT_TRUE(event);
    const Decoded decoded =
        decode_object(*(*event)->find("object"), parser.problems(), options, listener);
    ASSERT_EQ(decoded.outcome, Decoded::Outcome::Accepted);
    EXPECT_EQ(decoded.key, (ResourceKey{Kind::Service, "east", "shop", "api"}));
    EXPECT_EQ(key_of(*decoded.resource), decoded.key);
  }
  EXPECT_TRUE(findings.empty());
  // The items of a list have no type of their own.
  const auto item = parser.parse(R"({"metadata":{"name":"shop"}})");
  ASSERT_TRUE(item);
  const Decoded decoded = decode_object(**item, TypeMeta{"v1", "Namespace"}, {}, options, listener);
  EXPECT_EQ(decoded.outcome, Decoded::Outcome::Accepted);
}

TEST(DecodeTest, NamesARefusedObjectIfItsNameIsReadable) {
  JsonParser parser;
  std::vector<std::string> findings;
  const auto object = parser.parse(
      R"({"kind":"Service","apiVersion":"v1","metadata":{"name":"api","namespace":"shop"},"spec":7})");
  ASSERT_TRUE(object);
  const Decoded decoded = decode_object(**object, {}, {.path = "k", .cluster = {}, .network = {}},
                                        [&](Finding&& f) { findings.push_back(f.to_string()); });
  EXPECT_EQ(decoded.outcome, Decoded::Outcome::Refused);
  EXPECT_EQ(decoded.key.to_string(), "Service shop/api");
  EXPECT_EQ(findings, std::vector<std::string>{
                          "k:1: error: Service shop/api: spec: expected a mapping, got a number"});
}

}  // namespace
}  // namespace meshdns::registry
