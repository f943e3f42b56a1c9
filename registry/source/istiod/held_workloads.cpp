// SPDX-License-Identifier: Apache-2.0
#include "registry/source/istiod/held.hpp"

#include <algorithm>
#include <utility>

#include "registry/base/counted.hpp"
#include "registry/base/hash.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::registry::istiod {
namespace {

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
  Taking(HeldWorkloads& held, MessageReader& reader)
      : held_(held), reader_(reader), change_(held.begin_change()) {}

  Difference run(const Push& push) {
    // If a resource occurs twice, its removal counts, else the last one.
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
    auto known = held_.items_.find(address.name);
    if (known != held_.items_.end() && !known->second.is_refused &&
        known->second.content == content) {
      known->second.version = address.version;
      return;
    }
    ++changed_;
    static const HeldWorkload kNew;
    auto objects = read(address, known == held_.items_.end() ? kNew : known->second);
    if (!objects) return refuse(address.name, objects.error().message);
    known = held_.items_.try_emplace(address.name).first;
    if (!std::exchange(known->second.was_good, true)) held_.never_good_ -= known->second.is_refused;
    exchange(known->second, *objects);
    known->second.content = content;
    known->second.version = address.version;
    held_.set_refused(known->second, false);
    held_.set_findings(address.name, {});
  }

  Result<std::vector<Resource>> read(const PushedAddress& address, const HeldWorkload& before) {
    if (address.content.size() > kMaxResourceOctets) return fail("has more than 1 MiB");
    const auto message = reader_.read_address(address.content);
    if (!message) return fail("is no Address message");
    auto objects = objects_of(*message, address.name, held_.rules_);
    if (objects && held_.objects_ - before.keys.size() + objects->size() > held_.limits_.names)
      return fail("there are more than " + std::to_string(held_.limits_.names) + " objects");
    if (objects && !held_.has_room(before, parts_of(*objects)))
      return fail("there are more than " + std::to_string(held_.limits_.parts) +
                  " addresses and ports");
    return objects;
  }

  void exchange(HeldWorkload& held, const std::vector<Resource>& objects) {
    std::vector<std::uint64_t> keys;
    keys.reserve(objects.size());
    for (const Resource& object : objects) {
      keys.push_back(hash_of(key_of(object)));
      change_.resources.push_back(object, 0);
    }
    held_.set_parts(held, parts_of(objects));
    held_.objects_ += objects.size();
    held_.objects_ -= held.keys.size();
    for (const std::uint64_t key : held.keys)
      if (std::ranges::find(keys, key) == keys.end()) change_.removed.push_back(key);
    held.keys = std::move(keys);
  }

  // Its earlier version stays, and so does what an earlier run has left of it.
  void refuse(const std::string& name, const std::string& why) {
    if (refusals_++ == 0) refusal_ = printable(name) + ": " + why;
    const auto known = held_.items_.find(name);
    if (known != held_.items_.end()) return note_fault(name, known->second, why);
    if (held_.is_first_)
      for (const ResourceKey& key : keys_of_name(name, held_.rules_))
        change_.kept.push_back(hash_of(key));
    if (held_.never_good_ >= kMaxNeverGood) return;
    note_fault(name, held_.items_[name], why);
    ++held_.never_good_;
  }

  void note_fault(const std::string& name, HeldWorkload& held, const std::string& why) {
    held_.set_refused(held, true);
    held_.set_findings(name,
                       {{Severity::Error, held_.origin_, 0, "Address", printable(name), {}, why}});
  }

  void remove(const std::string& name) {
    const auto known = held_.items_.find(name);
    if (known == held_.items_.end()) return;
    ++changed_;
    exchange(known->second, {});
    held_.never_good_ -= !known->second.was_good;
    held_.forget(known);
  }

  void remove_others(const auto& pushed) {
    std::vector<std::string> others;
    for (const auto& [name, held] : held_.items_)
      if (!pushed.contains(name)) others.push_back(name);
    for (const std::string& name : others) remove(name);
  }

  Difference finish() {
    Difference difference = held_.end_change(std::move(change_), changed_);
    if (refusals_ > 0) difference.refusal = std::move(refusal_);
    if (refusals_ > 1)
      difference.refusal += "; " + counted(refusals_ - 1, "more resource") +
                            (refusals_ == 2 ? " is refused" : " are refused");
    return difference;
  }

  HeldWorkloads& held_;
  MessageReader& reader_;
  OriginChange change_;
  std::size_t changed_ = 0;
  std::size_t refusals_ = 0;
  std::string refusal_;  // the first one
};

Result<HeldWorkloads::Difference> HeldWorkloads::take(const Push& push, MessageReader& reader) {
  // A response without anything says nothing, least of all that everything is gone.
  if (push.addresses.empty() && push.removed.empty()) return Difference();
  return Taking(*this, reader).run(push);
}

std::vector<HeldResource> HeldWorkloads::begin_stream() {
  // istiod sends those again that were never good, if they are still there.
  for (auto at = items_.begin(); at != items_.end();) {
    const auto item = at++;
    if (!item->second.was_good) forget(item);
  }
  never_good_ = 0;
  std::vector<HeldResource> all;
  for (const auto& [name, held] : items_) all.push_back({name, held.version});
  return for_request(std::move(all));
}

}  // namespace meshdns::registry::istiod
