// SPDX-License-Identifier: Apache-2.0
// How a name is answered for a client, and why: the same decision that answers are made from, as
// text.  For `meshdnsd explain`, the admin page /explain and class CH alike.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dnsd/answer/forwarding_facts.hpp"
#include "dnsd/answer/query_settings.hpp"
#include "dnsd/kernel/kernel_feed.hpp"
#include "registry/snapshot/client.hpp"
#include "registry/snapshot/snapshot.hpp"
#include "registry/traffic/traffic_match.hpp"
#include "registry/view/near_names.hpp"
#include "registry/view/view.hpp"
#include "resolver/wire/types.hpp"

namespace meshdns::dnsd {

// Facts about a service and a client for operators, one per line.

// The fact about a snapshot that is not synced.
inline constexpr std::string_view kNotSynced =
    "registry: not complete, a source has not been read as a whole yet (/readyz says which)";

// "registry: waits for files:/etc/meshdns/resources", for operators; empty: for nothing known.
std::string awaited_source(const registry::Snapshot& snapshot);

// "ServiceEntry shop/api (shop.yaml:14)".
std::string place_of(const registry::Snapshot& snapshot, const registry::StoredRef& source);

// The match, the source, the visibility, the addresses, the TTL and the endpoints.
// REQUIRES: the match is visible to the view's client.
std::vector<std::string> service_facts(const registry::View& view, const registry::Match& match);

// "client.default, namespace shop"
std::string identity_of(const registry::Client& client);

// The object that decides Client::is_registry_only: "Sidecar shop/default (shop.yaml:3)" or "the
// mesh (ConfigMap istio-system/istio)".
std::string outbound_policy_of(const registry::Snapshot& snapshot, const registry::Client& client);

// Returns the service that is selected for a connection, as text (`meshdnsd explain --connect`).
// One fact a line: the connection and client, the service and the rule that chose it, its sources,
// the endpoints, what else was considered.
std::vector<std::string> traffic_lines(const registry::View& view,
                                       const registry::Connection& connection,
                                       const registry::TrafficMatch& match);
std::string traffic_json(const registry::View& view, const registry::Connection& connection,
                         const registry::TrafficMatch& match);

struct Explanation {
  struct Fact {
    std::string text;  // "ServiceEntry shop/api (shop.yaml:14): chosen"
    // Only for operators: the client that is asked for may not learn of it.
    bool hidden = false;
  };
  struct Answer {
    wire::Type type = wire::Type::A;
    std::string verdict;               // "answered", "forwarded to 10.0.0.53:53"
    std::string why;                   // "the host has no IPv6 address"
    std::string rcode;                 // "NOERROR"; empty where it is the upstream's to say
    std::vector<std::string> records;  // zone-file text of the answer section
    // The cache entry of a forwarded name; only for operators, because it shows queries of other
    // clients.
    std::string cached;
    std::string kernel;  // "answered in the kernel, entry of generation 12"; empty: not there
  };
  std::string name;      // as asked, with the final dot
  std::string identity;  // "client.default, namespace shop"
  std::vector<Fact> facts;
  std::vector<Answer> answers;
  std::vector<std::string> upstreams;  // how the servers are that it is forwarded to; for operators
  registry::NearNames near;            // of a name that is unknown
};

// The number of names that are looked at for those near an unknown one: 30 ms of a thread that no
// query waits for; and for clients of class CH, who may ask as often as they like, less than 1 ms.
inline constexpr std::size_t kNamesComparedForOperators = 200'000;
inline constexpr std::size_t kNamesComparedForClients = 5'000;

struct ExplainRequest {
  const registry::Snapshot& snapshot;
  const registry::Client& client;
  const QuerySettings& settings;
  std::string_view name;  // text, any case, final dot optional, escapes as in zone files
  std::vector<wire::Type> types =
      {};  // empty = those that fit the name: A and AAAA, or PTR, or SRV
  DescribeForwarding forwarding = {};  // empty: nothing is said of it
  const KernelFeed* kernel = nullptr;  // null: the kernel answers nothing
  DescribePast past = {};              // empty: nothing is said of it
  std::size_t most_names_compared = kNamesComparedForOperators;
};

// An Error when `name` is none.
Result<Explanation> explain(const ExplainRequest& request);

// The explanation for a client that `client.unknown: refuse` refuses: there is no view to explain
// with.  An Error when `name` is none.
Result<Explanation> explain_unknown_client(std::string_view name, const IpAddress& address);

// `no object of the registry is in namespace "shpo"; did you mean "shop"?`; empty: some object is,
// or it is the root namespace.
std::string unknown_namespace(const registry::Snapshot& snapshot, std::string_view ns);

// Says first why `address` is the client that it is.  If `allow` (server.allow) does not include
// it, that is said, too, and each answer becomes REFUSED.
void add_client_facts(Explanation& explanation, const registry::Snapshot& snapshot,
                      const AccessList& allow, const IpAddress& address);

// The reader of an explanation: an operator also sees objects that are hidden from the client.
enum class Audience : std::uint8_t { Client, Operator };

// One fact per line, no colours.
std::vector<std::string> to_lines(const Explanation& explanation, Audience audience);
std::string to_json(const Explanation& explanation, Audience audience);

// The identity of a client and its settings (whoami.meshdns), one fact per line.
std::vector<std::string> describe_client(const registry::Snapshot& snapshot,
                                         const registry::Client& client, std::string_view address,
                                         Audience audience);

}  // namespace meshdns::dnsd
