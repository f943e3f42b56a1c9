// SPDX-License-Identifier: Apache-2.0
// The `answer:` of a scenario, and its comparison with a reply.  It means the same as in
// tests/harness/expectation.py.
#pragma once

#include <yaml-cpp/yaml.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "resolver/wire/query_message.hpp"
#include "resolver/wire/response_message.hpp"
#include "tests/upstream/scripted_upstream.hpp"

namespace meshdns::dnsd::test {

// One question of a scenario, and how it is asked.
struct AskedQuestion {
  std::string name;  // as written
  wire::Type type = wire::Type::A;
  wire::Class qclass = wire::Class::In;
  bool edns = true;
  std::uint16_t bufsize = 1232;
  bool dnssec_ok = false;
  bool authentic_data = false;
  bool checking_disabled = false;
  bool recursion_desired = true;

  // Throws std::invalid_argument.
  static AskedQuestion from(const std::string& text, const YAML::Node& step);
  std::vector<std::uint8_t> to_wire() const;
  std::string to_string() const;
};

struct AskedAnswer {
  std::vector<std::uint8_t> wire;
  bool tcp = false;
  std::chrono::milliseconds elapsed{0};
};

// The long form of `answer:`, a mapping.  Throws std::invalid_argument for unknown keys and words.
YAML::Node expectation_of(const YAML::Node& answer);
// The expectation that the upstream's records alone give, as a forwarder passes them on.
YAML::Node forwarded_expectation(const UpstreamZone& zone, const AskedQuestion& question);

// Everything that is wrong with the reply; empty: it is as expected.
std::vector<std::string> problems_of(const AskedQuestion& question, const AskedAnswer& answer,
                                     const YAML::Node& expected);

}  // namespace meshdns::dnsd::test
