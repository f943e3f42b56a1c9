#include "registry/source/kubernetes/discovery.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace meshdns::registry::kubernetes {
namespace {

constexpr std::size_t kMaxBody = std::size_t{8} << 20;

struct Group {
  std::string_view name;
  std::array<std::string_view, 3> versions;  // the one that we like best first
};
constexpr std::array kGroups = {
    Group{"discovery.k8s.io", {"v1", "v1beta1", ""}},
    Group{"networking.istio.io", {"v1", "v1beta1", "v1alpha3"}},
    Group{"multicluster.x-k8s.io", {"v1", "v1beta1", "v1alpha1"}},
    Group{"net.gke.io", {"v1", "", ""}},
    Group{"apiextensions.k8s.io", {"v1", "", ""}},
};

std::string_view text_of(const Node& object, std::string_view key) {
  const Node* const value = object.find(key);
  return value == nullptr ? std::string_view() : value->text();
}

bool has_version(const Node& group, std::string_view version) {
  const Node* const versions = group.find("versions");
  return versions != nullptr && versions->is_sequence() &&
         std::ranges::any_of(*versions,
                             [&](const Node& v) { return text_of(v, "version") == version; });
}

}  // namespace

Discovery::Discovery(Transport& transport, JsonParser& parser, Outcome outcome)
    : transport_(transport), parser_(parser), outcome_(std::move(outcome)) {
  ask_next();
}

Discovery::~Discovery() = default;

void Discovery::ask_next() {
  head_ = {};
  body_.clear();
  std::string path = "/apis";
  if (groups_read_) path += "/" + versions_.front().first + "/" + versions_.front().second;
  exchange_ = transport_.get(std::move(path), Content::Json, *this);
}

void Discovery::on_body(std::string_view part) {
  if (body_.size() + part.size() <= kMaxBody) body_ += part;
}

void Discovery::on_end(const Result<void>& end) {
  using Trouble = ReflectorStatus::Trouble;
  exchange_.reset();
  if (!end) return fail(Trouble::Unreachable, end.error().message);
  if (head_.status == 401) {
    transport_.renew_credentials();
    return fail(Trouble::Unauthorized, "401 at discovery");
  }
  if (head_.status == 403) return fail(Trouble::Forbidden, "403 at discovery");
  // A group's version that has gone between two answers has no kinds.
  const bool is_gone = groups_read_ && head_.status == 404;
  if (head_.status != 200 && !is_gone)
    return fail(Trouble::Failing, std::to_string(head_.status) + " at discovery");
  const bool is_good = is_gone || (groups_read_ ? read_kinds(body_) : read_groups(body_));
  if (!is_good) return fail(Trouble::Failing, "what discovery got is no list of kinds");
  if (groups_read_)
    versions_.pop_front();
  else
    groups_read_ = true;
  if (!versions_.empty()) return ask_next();
  // Moved out: it may destroy us.
  const auto found = std::move(outcome_.found);
  found(std::move(found_));
}

bool Discovery::read_groups(std::string_view text) {
  const auto list = parser_.parse(text);
  const Node* const groups = list ? (*list)->find("groups") : nullptr;
  if (groups == nullptr || !groups->is_sequence()) return false;
  for (const Node& group : *groups)
    for (const Group& ours : kGroups) {
      if (ours.name != text_of(group, "name")) continue;
      for (const std::string_view version : ours.versions)
        if (!version.empty() && has_version(group, version))
          versions_.emplace_back(ours.name, version);
    }
  return true;
}

bool Discovery::read_kinds(std::string_view text) {
  const auto list = parser_.parse(text);
  const Node* const resources = list ? (*list)->find("resources") : nullptr;
  if (resources == nullptr || !resources->is_sequence()) return false;
  const auto& [group, version] = versions_.front();
  for (const Node& resource : *resources)
    found_.try_emplace(std::string(text_of(resource, "name")) + "." + group, version);
  return true;
}

void Discovery::fail(ReflectorStatus::Trouble trouble, std::string message) {
  const auto failed = std::move(outcome_.failed);
  failed({trouble, std::move(message)});
}

}  // namespace meshdns::registry::kubernetes
