// SPDX-License-Identifier: Apache-2.0
#include "tests/in_process/yaml_text.hpp"

#include <map>
#include <regex>

namespace meshdns::dnsd::test {
namespace {

const std::map<std::string, std::string> kApiVersions = {
    {"ServiceEntry", "networking.istio.io/v1"},
    {"WorkloadEntry", "networking.istio.io/v1"},
    {"Sidecar", "networking.istio.io/v1"},
    {"VirtualService", "networking.istio.io/v1"},
    {"ConfigMap", "v1"},
    {"Service", "v1"},
    {"Endpoints", "v1"},
    {"Pod", "v1"},
    {"Namespace", "v1"},
    {"Node", "v1"},
    {"EndpointSlice", "discovery.k8s.io/v1"},
    {"Gateway", "gateway.networking.k8s.io/v1"},
    {"HTTPRoute", "gateway.networking.k8s.io/v1"},
    {"TLSRoute", "gateway.networking.k8s.io/v1"},
    {"GRPCRoute", "gateway.networking.k8s.io/v1"},
    {"Ingress", "networking.k8s.io/v1"},
    {"ServiceImport", "multicluster.x-k8s.io/v1alpha1"},
    {"ServiceExport", "multicluster.x-k8s.io/v1alpha1"}};

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '\n') {
      result += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

std::string scalar_text(const YAML::Node& node) {
  static const std::regex kPlain("null|true|false|-?[0-9]+(\\.[0-9]+)?");
  const bool is_plain = node.Tag() != "!";
  return is_plain && std::regex_match(node.Scalar(), kPlain) ? node.Scalar()
                                                             : quoted(node.Scalar());
}

}  // namespace

std::vector<std::string> strings_of(const YAML::Node& list) {
  if (!list) return {};
  if (list.IsScalar()) return {list.Scalar()};
  std::vector<std::string> result;
  for (const auto& each : list) result.push_back(each.Scalar());
  return result;
}

std::string json_text(const YAML::Node& node) {
  std::string text;
  switch (node.Type()) {
    case YAML::NodeType::Map:
      for (const auto& item : node)
        text += (text.empty() ? "" : ", ") + quoted(item.first.Scalar()) + ": " +
                json_text(item.second);
      return "{" + text + "}";
    case YAML::NodeType::Sequence:
      for (const auto& item : node) text += (text.empty() ? "" : ", ") + json_text(item);
      return "[" + text + "]";
    case YAML::NodeType::Scalar:
      return scalar_text(node);
    case YAML::NodeType::Null:
    case YAML::NodeType::Undefined:
      break;
  }
  return "null";
}

std::string manifest_text(const std::vector<YAML::Node>& resources) {
  std::string text;
  for (const YAML::Node& resource : resources) {
    YAML::Node complete = YAML::Clone(resource);
    const auto version = kApiVersions.find(complete["kind"].as<std::string>(""));
    if (!complete["apiVersion"] && version != kApiVersions.end())
      complete["apiVersion"] = version->second;
    text += (text.empty() ? "" : "---\n") + json_text(complete) + "\n";
  }
  return text;
}

}  // namespace meshdns::dnsd::test
