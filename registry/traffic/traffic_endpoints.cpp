// SPDX-License-Identifier: Apache-2.0
#include "registry/traffic/traffic_endpoints.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "registry/base/hash.hpp"
#include "registry/model/entry_endpoints.hpp"

namespace meshdns::registry {
namespace {

std::string with_port(const std::string& address, std::uint16_t port) {
  if (IpAddress::parse(address) && address.find(':') != std::string::npos)
    return "[" + address + "]:" + std::to_string(port);
  return address + ":" + std::to_string(port);
}

class EndpointLister {
 public:
  EndpointLister(const View& view, const Connection& connection, TrafficMatch& match)
      : view_(view), connection_(connection), match_(match) {}

  void run() {
    bool has_entry = false;
    CountedEntries counted;
    match_.service->for_each_source([&](const StoredRef& source) {
      if (source->kind() != Kind::ServiceEntry) return;
      has_entry = true;
      const Resource resource = source->decode();
      const auto& entry = std::get<ServiceEntry>(resource);
      if (counted.counts(entry)) add_endpoints_of(entry);
    });
    if (has_entry) return;
    if (const EndpointList* endpoints = match_.service->endpoints()) {
      for (const EndpointEntry& entry : endpoints->entries)
        if (!goes_to_original_address(*endpoints) || entry.address == connection_.address)
          add(entry.address.to_string(), endpoint_port(*endpoints, entry, match_.port),
              entry.ready);
    }
    if (match_.endpoints.empty()) note("its endpoints are not known");
  }

 private:
  void note(std::string text) { match_.notes.push_back(std::move(text)); }

  void add(const std::string& address, std::uint16_t port, bool ready) {
    std::string text = with_port(address, port) + (ready ? "" : ", not ready");
    if (seen_.insert(text).second) match_.endpoints.push_back(std::move(text));
  }

  // A headless Service's connections are not distributed: each goes where it was meant to.
  bool goes_to_original_address(const EndpointList& endpoints) const {
    if (match_.rule == TrafficMatch::Rule::HeadlessEndpoint) return true;
    return match_.service->headless &&
           std::ranges::find(endpoints.entries, connection_.address, &EndpointEntry::address) !=
               endpoints.entries.end();
  }

  void add_endpoints_of(const ServiceEntry& entry) {
    const auto port = std::ranges::find(entry.ports, match_.port.number, &ServicePort::number);
    if (port == entry.ports.end()) return;  // another entry of the host has that port
    if (entry.resolution == Resolution::None && !entry.workload_selector) {
      add(connection_.address.to_string(), connection_.port, true);
      return;
    }
    const auto for_each_selected = [&](const Labels& selector, const auto& visit) {
      visit_selected(entry.meta.ns, selector, visit);
    };
    for_each_endpoint(entry, match_.host, for_each_selected, [&](const EntryEndpoint& endpoint) {
      if (endpoint.pod != nullptr)
        for (const IpAddress& ip : endpoint.pod->ips)
          add(ip.to_string(), target(*port), endpoint.pod->ready);
      else if (endpoint.spec != nullptr)
        add_spec(*endpoint.spec, entry, *port, endpoint.healthy);
      else
        add(match_.host, target(*port), true);
    });
  }

  static std::uint16_t target(const ServicePort& port) {
    return port.target_port != 0 ? port.target_port : port.number;
  }

  void add_spec(const WorkloadSpec& spec, const ServiceEntry& entry, const ServicePort& port,
                bool healthy) {
    std::string why;
    const auto how = reached(spec, entry, &why);
    if (!how) return note(std::move(why));
    if (how == Reached::BySocket) return match_.endpoints.push_back(spec.address);
    const auto own =
        std::ranges::find_if(spec.ports, [&](const auto& pair) { return pair.first == port.name; });
    add(spec.address, own != spec.ports.end() ? own->second : target(port), healthy);
  }

  void visit_selected(std::string_view ns, const Labels& selector,
                      const std::function<void(const Resource&)>& visit) const {
    std::vector<Resource> selected;
    view_.snapshot().resources.for_each([&](const StoredResource& stored) {
      if (stored.ns() != ns) return;
      if (stored.kind() != Kind::WorkloadEntry && stored.kind() != Kind::Pod) return;
      Resource resource = stored.decode();
      const auto* const entry = std::get_if<WorkloadEntry>(&resource);
      if (selects(selector,
                  entry == nullptr ? meta_of(resource).labels : selectable_labels(*entry)))
        selected.push_back(std::move(resource));
    });
    std::ranges::sort(selected, precedes_as_endpoint);
    for (const Resource& resource : selected) visit(resource);
  }

  const View& view_;
  const Connection& connection_;
  TrafficMatch& match_;
  TextSet seen_;  // those of match_.endpoints; there may be thousands
};

}  // namespace

std::uint16_t endpoint_port(const EndpointList& endpoints, const EndpointEntry& entry,
                            const ServicePort& port) {
  for (const ServicePort& own : endpoints.ports[entry.subset]->ports)
    if (own.name == port.name) return own.number;
  return port.target_port != 0 ? port.target_port : port.number;
}

void add_endpoints(const View& view, const Connection& connection, TrafficMatch& match) {
  EndpointLister(view, connection, match).run();
}

}  // namespace meshdns::registry
