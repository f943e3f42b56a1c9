// SPDX-License-Identifier: Apache-2.0
#include "dnsd/kernel/loader/attachments.hpp"

#include <bpf/libbpf.h>
#include <fnmatch.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>

#include "dnsd/kernel/loader/answer_program.hpp"
#include "dnsd/kernel/loader/log.hpp"

namespace meshdns::kernel {

// --- the filter of one interface -----------------------------------------------------------------

namespace {

// Our place among the filters of an interface.  Those of lower priorities see a packet first; the
// ones that others add without a priority come later.
constexpr std::uint32_t kPriority = 53;
constexpr std::uint32_t kHandle = 0x6d646e73;
// libbpf names a filter by its program: NAME:[ID].
constexpr std::string_view kNameStart = "meshdns_answer:[";

bpf_tc_hook hook_of(int interface, bpf_tc_attach_point point) {
  bpf_tc_hook hook{};
  hook.sz = sizeof hook;
  hook.ifindex = interface;
  hook.attach_point = point;
  return hook;
}

bpf_tc_opts our_place() {
  bpf_tc_opts options{};
  options.sz = sizeof options;
  options.handle = kHandle;
  options.priority = kPriority;
  return options;
}

std::unexpected<Error> fail_with(const char* what, int result) {
  std::string details = take_libbpf_messages();
  while (!details.empty() && details.back() == '\n') details.pop_back();
  return fail(std::string(what) + ": " + std::strerror(-result) +
              (details.empty() ? "" : " (" + details + ")"));
}

// Attaches the program in place of an older one of ours.  Makes the queueing discipline clsact if
// the interface has none.
Result<Qdisc> attach_filter(int interface, int program) {
  bpf_tc_hook hook = hook_of(interface, BPF_TC_INGRESS);
  const int made = bpf_tc_hook_create(&hook);
  take_libbpf_messages();  // it complains about one that is there
  if (made != 0 && made != -EEXIST) return fail_with("cannot make clsact", made);
  bpf_tc_opts options = our_place();
  options.prog_fd = program;
  options.flags = BPF_TC_F_REPLACE;
  if (const int result = bpf_tc_attach(&hook, &options); result != 0)
    return fail_with("cannot attach the program", result);
  return made == 0 ? Qdisc::Made : Qdisc::Found;
}

bool is_unused(int interface) {
  for (const Direction direction : {Direction::Ingress, Direction::Egress}) {
    const auto filters = list_filters(interface, direction);
    if (!filters || !filters->empty()) return false;
  }
  return true;
}

}  // namespace

Result<std::optional<std::uint32_t>> find_filter(int interface) {
  const auto filters = list_filters(interface, Direction::Ingress);
  if (!filters) return std::unexpected(filters.error());
  for (const Filter& filter : *filters) {
    if (filter.priority != kPriority || filter.handle != kHandle) continue;
    if (!filter.name.starts_with(kNameStart))
      return fail("another program has our place (priority 53): " + filter.name);
    return filter.program_id;
  }
  return std::nullopt;
}

Result<void> detach_filter(int interface, Qdisc qdisc) {
  bpf_tc_hook hook = hook_of(interface, BPF_TC_INGRESS);
  const auto found = find_filter(interface);
  if (!found) return std::unexpected(found.error());
  if (*found) {
    const bpf_tc_opts options = our_place();
    const int result = bpf_tc_detach(&hook, &options);
    if (result != 0 && result != -ENOENT) return fail_with("cannot detach the program", result);
  }
  if (qdisc == Qdisc::Made && is_unused(interface)) {
    hook = hook_of(interface, static_cast<bpf_tc_attach_point>(BPF_TC_INGRESS | BPF_TC_EGRESS));
    bpf_tc_hook_destroy(&hook);
    take_libbpf_messages();
  }
  return {};
}

// --- the filters of all interfaces ---------------------------------------------------------------

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
