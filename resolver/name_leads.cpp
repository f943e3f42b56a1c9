// SPDX-License-Identifier: Apache-2.0
#include "resolver/name_leads.hpp"

namespace meshdns::resolver {
namespace {

using registry::ResolvedName;

NameLeads::Use use_of(std::string_view ns, std::string_view host) {
  return {std::string(ns), std::string(host)};
}

bool is_unresolved(const ResolvedName& name) {
  return name.state == ResolvedName::State::Failed ||
         name.state == ResolvedName::State::NoAddresses;
}

}  // namespace

const MeshAnswer* NameLeads::find(std::string_view ns, std::string_view host) const {
  if (leads_.empty()) return nullptr;
  const auto it = leads_.find(use_of(ns, host));
  return it == leads_.end() ? nullptr : &it->second;
}

std::string NameLeads::asked_for(std::string_view ns, std::string_view host) const {
  const MeshAnswer* const lead = find(ns, host);
  return lead == nullptr ? std::string(host) : lead->asks;
}

void NameLeads::count(const MeshAnswer& answer, bool add) {
  if (!answer.asks.empty()) return;
  add ? ++known_ : --known_;
  if (is_unresolved(answer.result)) add ? ++unresolved_ : --unresolved_;
}

void NameLeads::set(std::string_view ns, std::string_view host, MeshAnswer answer) {
  erase(ns, host);
  if (answer.asks == host) return;
  count(answer, true);
  leads_.emplace(use_of(ns, host), std::move(answer));
}

void NameLeads::erase(std::string_view ns, std::string_view host) {
  if (leads_.empty()) return;
  const auto it = leads_.find(use_of(ns, host));
  if (it == leads_.end()) return;
  count(it->second, false);
  leads_.erase(it);
}

bool NameLeads::join(std::string_view ns, std::string_view host, std::string_view target,
                     bool is_watched) {
  const bool is_itself = host == target;
  const auto found = askers_.find(use_of(ns, target));
  if (found == askers_.end() && is_itself) return true;
  Askers& askers =
      found != askers_.end() ? found->second : askers_[use_of(ns, target)] = {is_watched, {}};
  const bool is_first = !askers.by_itself && askers.others.empty();
  if (is_itself)
    askers.by_itself = true;
  else
    askers.others.emplace(host);
  return is_first;
}

bool NameLeads::leave(std::string_view ns, std::string_view host, std::string_view target) {
  const auto found = askers_.find(use_of(ns, target));
  if (found == askers_.end()) return true;
  Askers& askers = found->second;
  if (host == target)
    askers.by_itself = false;
  else if (const auto other = askers.others.find(host); other != askers.others.end())
    askers.others.erase(other);
  const bool by_itself = askers.by_itself;
  if (!askers.others.empty()) return false;
  askers_.erase(found);
  return !by_itself;
}

std::vector<std::string> NameLeads::askers(std::string_view ns, std::string_view target) const {
  const auto found = askers_.empty() ? askers_.end() : askers_.find(use_of(ns, target));
  if (found == askers_.end()) return {std::string(target)};
  std::vector<std::string> hosts(found->second.others.begin(), found->second.others.end());
  if (found->second.by_itself) hosts.emplace_back(target);
  return hosts;
}

}  // namespace meshdns::resolver
