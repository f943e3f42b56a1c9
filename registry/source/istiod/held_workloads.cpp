// SPDX-License-Identifier: Apache-2.0
#include "registry/source/istiod/held_workloads.hpp"

#include <algorithm>
#include <utility>

#include "registry/base/hash.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::registry::istiod {
namespace {

// Between the parts of packed keys.  Checked texts have no such character.
constexpr char kPartEnd = '\0';

void pack_key(const ResourceKey& key, std::string& into) {
  into.push_back(static_cast<char>(key.kind));
  for (const std::string* part : {&key.cluster, &key.ns, &key.name})
    into.append(*part).push_back(kPartEnd);
}

// REQUIRES: `packed` begins with a key, which is removed.
ResourceKey unpack_key(std::string_view& packed) {
  ResourceKey key;
  key.kind = static_cast<Kind>(packed.front());
  packed.remove_prefix(1);
  for (std::string* part : {&key.cluster, &key.ns, &key.name}) {
    const auto end = packed.find(kPartEnd);
    *part = packed.substr(0, end);
    packed.remove_prefix(end + 1);
  }
  return key;
}

std::vector<ResourceKey> unpack_keys(std::string_view packed) {
  std::vector<ResourceKey> keys;
  while (!packed.empty()) keys.push_back(unpack_key(packed));
  return keys;
}

// The parts of an object that objects_of() makes.
std::size_t parts_of_object(const Resource& object) {
  if (const auto* service = std::get_if<KubeService>(&object))
    return service->cluster_ips.size() + service->ports.size();
  if (const auto* entry = std::get_if<ServiceEntry>(&object))
    return entry->addresses.size() + entry->ports.size() + entry->subject_alt_names.size();
  std::size_t parts = meta_of(object).labels.size();
  if (const auto* slice = std::get_if<EndpointSlice>(&object))
    for (const EndpointSubset& subset : slice->subsets) {
      parts += subset.ports.size();
      for (const Endpoint& endpoint : subset.endpoints) parts += endpoint.addresses.size();
    }
  if (const auto* pod = std::get_if<Pod>(&object)) parts += pod->ips.size();
  return parts;
}

std::size_t parts_of(const std::vector<Resource>& objects) {
  std::size_t parts = 0;
  for (const Resource& object : objects) parts += parts_of_object(object);
  return parts;
}

}  // namespace

// One push.
class HeldWorkloads::Taking {
 public:
  Taking(HeldWorkloads& held, MessageReader& reader) : held_(held), reader_(reader) {
    change_.origin = held.origin_;
    change_.effect = held.is_first_ ? OriginChange::Effect::Replace : OriginChange::Effect::Update;
  }

  Difference run(const Push& push) {
    // Of a resource that occurs twice, the last one counts, and its removal above all.
    TextViewMap<const PushedAddress*> last;
    for (const PushedAddress& address : push.addresses) last[address.name] = &address;
    for (const PushedAddress& address : push.addresses)
      if (last[address.name] == &address) take_one(address);
    for (const std::string& name : push.removed) remove(name);
    if (std::exchange(held_.wants_whole_, false)) remove_others(last);
    return finish();
  }

 private:
  void take_one(const PushedAddress& address) {
    const std::uint64_t content = hash_bytes(address.content);
    auto known = held_.held_.find(address.name);
    if (known != held_.held_.end() && !known->second.is_refused &&
        known->second.content == content) {
      known->second.version = address.version;
      return;
    }
    ++changed_;
    static const Held kNew;
    auto objects = read(address, known == held_.held_.end() ? kNew : known->second);
    if (!objects) return refuse(address.name, objects.error().message);
    known = held_.held_.try_emplace(address.name).first;
    if (!std::exchange(known->second.was_good, true)) held_.never_good_ -= known->second.is_refused;
    exchange(known->second, *objects);
    known->second.content = content;
    known->second.version = address.version;
    held_.refused_ -= std::exchange(known->second.is_refused, false);
    held_.faults_.erase(address.name);
  }

  Result<std::vector<Resource>> read(const PushedAddress& address, const Held& before) {
    if (address.content.size() > kMaxResourceOctets) return fail("has more than 1 MiB");
    const auto message = reader_.read_address(address.content);
    if (!message) return fail("is no Address message");
    auto objects = objects_of(*message, address.name, held_.rules_);
    if (objects && held_.objects_ - before.objects + objects->size() > held_.limits_.names)
      return fail("there are more than " + std::to_string(held_.limits_.names) + " objects");
    if (objects && held_.parts_ - before.parts + parts_of(*objects) > held_.limits_.parts)
      return fail("there are more than " + std::to_string(held_.limits_.parts) +
                  " addresses and ports");
    return objects;
  }

  void exchange(Held& held, const std::vector<Resource>& objects) {
    std::string keys;
    for (const Resource& object : objects) {
      pack_key(key_of(object), keys);
      change_.resources.push_back({object, 0});
    }
    held_.parts_ -= held.parts;
    held_.objects_ -= held.objects;
    held.parts = static_cast<std::uint32_t>(parts_of(objects));
    held.objects = static_cast<std::uint32_t>(objects.size());
    held_.parts_ += held.parts;
    held_.objects_ += held.objects;
    for (ResourceKey& key : unpack_keys(held.keys))
      if (std::ranges::none_of(objects, [&](const Resource& o) { return key_of(o) == key; }))
        change_.removed.push_back(std::move(key));
    held.keys = std::move(keys);
  }

  // Its earlier version stays, and so does what an earlier run has left of it.
  void refuse(const std::string& name, const std::string& why) {
    if (refusals_++ == 0) refusal_ = printable(name) + ": " + why;
    const auto known = held_.held_.find(name);
    if (known != held_.held_.end()) {
      note_fault(name, why);
      held_.refused_ += !std::exchange(known->second.is_refused, true);
      return;
    }
    if (held_.is_first_)
      for (ResourceKey& key : keys_of_name(name, held_.rules_))
        change_.keep.push_back(std::move(key));
    if (held_.never_good_ >= kMaxNeverGood) return;
    note_fault(name, why);
    held_.held_[name].is_refused = true;
    ++held_.refused_;
    ++held_.never_good_;
  }

  void note_fault(const std::string& name, const std::string& why) {
    held_.faults_.erase(name);
    if (held_.faults_.size() < kMaxFaulty)
      held_.faults_[name] = {
          Severity::Error, held_.origin_, 0, "Address", printable(name), {}, why};
  }

  void remove(const std::string& name) {
    const auto known = held_.held_.find(name);
    if (known == held_.held_.end()) return;
    ++changed_;
    exchange(known->second, {});
    held_.forget(name);
  }

  void remove_others(const auto& pushed) {
    std::vector<std::string> others;
    for (const auto& [name, held] : held_.held_)
      if (!pushed.contains(name)) others.push_back(name);
    for (const std::string& name : others) remove(name);
  }

  Difference finish() {
    Difference difference;
    difference.changed = changed_;
    if (refusals_ > 0) difference.refusal = std::move(refusal_);
    if (refusals_ > 1)
      difference.refusal += "; " + std::to_string(refusals_ - 1) + " more resources are refused";
    if (changed_ == 0 && !held_.is_first_) return difference;
    change_.findings = held_.findings();
    difference.changes.push_back(std::move(change_));
    return difference;
  }

  HeldWorkloads& held_;
  MessageReader& reader_;
  OriginChange change_;
  std::size_t changed_ = 0;
  std::size_t refusals_ = 0;
  std::string refusal_;  // the first one
};

HeldWorkloads::Difference HeldWorkloads::take(const Push& push, MessageReader& reader) {
  // A response without anything says nothing, least of all that everything is gone.
  if (push.addresses.empty() && push.removed.empty()) return {};
  Difference difference = Taking(*this, reader).run(push);
  is_first_ = false;
  return difference;
}

void HeldWorkloads::forget(const std::string& name) {
  const auto known = held_.find(name);
  refused_ -= known->second.is_refused;
  never_good_ -= !known->second.was_good;
  faults_.erase(name);
  held_.erase(known);
}

std::vector<HeldResource> HeldWorkloads::begin_stream() {
  // istiod sends those again that were never good, if they are still there.
  refused_ -= std::erase_if(held_, [this](const auto& item) {
    const bool was_never_good = !item.second.was_good;
    if (was_never_good) faults_.erase(item.first);
    return was_never_good;
  });
  never_good_ = 0;
  std::vector<HeldResource> all;
  std::size_t octets = 0;
  for (const auto& [name, held] : held_)
    octets += all.emplace_back(HeldResource{name, held.version}).octets();
  wants_whole_ = octets > kMaxVersionOctets;
  if (wants_whole_) all.clear();
  return all;
}

std::vector<Finding> HeldWorkloads::findings() const {
  std::vector<Finding> all;
  for (const auto& [name, finding] : faults_) all.push_back(finding);
  return all;
}

}  // namespace meshdns::registry::istiod
