// SPDX-License-Identifier: Apache-2.0
#include "dnsd/kernel/loader/attachments.hpp"

#include <fnmatch.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <set>

#include "dnsd/kernel/loader/log.hpp"

namespace meshdns::kernel {

// The program reads Ethernet frames.  No route leads to a port of a bridge, so it would answer
// nothing there; the bridge itself is the place.
bool Attachments::wants(const Link& link) const {
  return link.is_ethernet && !link.is_bridge_port &&
         std::ranges::any_of(patterns_, [&](const std::string& pattern) {
           return fnmatch(pattern.c_str(), link.name.c_str(), 0) == 0;
         });
}

void Attachments::look_at_all() {
  const auto links = list_links();
  if (!links) {
    log(Level::Warning, "cannot list the interfaces; trying again",
        {{"error", links.error().message}});
    return;
  }
  std::set<int> present;
  for (const Link& link : *links) {
    present.insert(link.index);
    look_at(link);
  }
  std::erase_if(attached_, [&](const auto& entry) { return !present.contains(entry.first); });
  std::erase_if(failures_, [&](const auto& entry) { return !present.contains(entry.first); });
}

void Attachments::look_at(const Link& link) {
  const auto found = attached_.find(link.index);
  if (wants(link)) return attach(link);
  if (found == attached_.end()) return;
  detach(link.index, found->second);
  forget(link.index);
}

void Attachments::attach(const Link& link) {
  const auto present = find_filter(link.index);
  if (!present) return report(link, present.error().message);
  const auto found = attached_.find(link.index);
  if (*present == program_id_ && found != attached_.end()) {
    found->second.name = link.name;
    return;
  }
  const auto qdisc = attach_filter(link.index, program_);
  if (!qdisc) return report(link, qdisc.error().message);
  log(Level::Info, found == attached_.end() ? "attached" : "attached again: the filter was gone",
      {{"interface", link.name}});
  failures_.erase(link.index);
  const bool made =
      *qdisc == Qdisc::Made || (found != attached_.end() && found->second.qdisc == Qdisc::Made);
  attached_[link.index] = {.name = link.name, .qdisc = made ? Qdisc::Made : Qdisc::Found};
}

void Attachments::handle(const LinkEvent& event) {
  if (const auto* const link = std::get_if<Link>(&event)) return look_at(*link);
  if (const auto* const gone = std::get_if<LinkGone>(&event)) return forget(gone->index);
  if (const auto* const filters = std::get_if<FiltersGone>(&event)) {
    const auto found = attached_.find(filters->index);
    if (found == attached_.end()) return;
    return attach({.index = filters->index, .name = found->second.name, .is_ethernet = true});
  }
  look_at_all();
}

void Attachments::detach_all() {
  for (const auto& [index, attachment] : attached_) detach(index, attachment);
  attached_.clear();
}

void Attachments::detach(int index, const Attachment& attachment) {
  if (const auto done = detach_filter(index, attachment.qdisc); !done)
    log(Level::Warning, "cannot detach",
        {{"interface", attachment.name}, {"error", done.error().message}});
  else
    log(Level::Info, "detached", {{"interface", attachment.name}});
}

void Attachments::report(const Link& link, const std::string& message) {
  std::array<char, IF_NAMESIZE> name;
  if (if_indextoname(static_cast<unsigned>(link.index), name.data()) == nullptr) return;  // gone
  std::string& last = failures_[link.index];
  if (last != message)
    log(Level::Warning, "cannot attach; trying again",
        {{"interface", link.name}, {"error", message}});
  last = message;
}

void Attachments::forget(int index) {
  attached_.erase(index);
  failures_.erase(index);
}

}  // namespace meshdns::kernel
