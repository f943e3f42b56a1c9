// SPDX-License-Identifier: Apache-2.0
// The record of dependencies as `meshdnsd dependencies` prints it: that of one daemon, or those of
// several nodes as one.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "dnsd/cli/arguments.hpp"
#include "dnsd/cli/json_page.hpp"
#include "registry/base/result.hpp"

namespace meshdns::dnsd {

class DependencyReport {
 public:
  // Adds a page of /dependencies.  Of rows that are there already the questions are added up, and
  // the first and the last of them count.  An Error says what is wrong; nothing was added then.
  Result<void> add(const Value& page);
  // Adds a file with such pages, one after the other.  An Error begins with the path.
  Result<void> add_file(const std::string& path);
  // Removes the rows that the options leave out.  `now`: Unix seconds.
  void keep(const DependencyArguments& options, std::int64_t now);

  // Text from pages is made printable; none of it ends a quoted name.
  void print_text(std::ostream& out, std::int64_t now) const;
  void print_dot(std::ostream& out) const;
  void print_mermaid(std::ostream& out) const;
  // As /dependencies has it, but without `record`.
  std::string to_json() const;

 private:
  using Workload = std::pair<std::string, std::string>;  // namespace, name
  struct Key {
    Workload workload;
    std::string host;
    std::string host_ns;
    std::string result;
    auto operator<=>(const Key&) const = default;
  };
  struct Row {
    std::uint64_t questions = 0;
    std::int64_t first = 0;  // Unix seconds
    std::int64_t last = 0;
    std::set<std::string> types;
    std::string object;  // as the page with the last question has both
    std::string rule;
  };
  struct Limits {
    std::int64_t since = 0;
    std::uint64_t dropped = 0;
  };
  using Rows = std::map<Key, Row>;

  static Result<Rows::value_type> row_of(const Value& element);
  static void merge(Row& row, const Row& other);
  static std::string name_of(const Workload& workload);
  static std::string name_of(const Key& key);
  static std::string label_of(const Rows::value_type& row);

  Rows rows_;
  std::map<Workload, Limits> workloads_;
  bool is_off_ = false;  // dependencies.record: off
};

}  // namespace meshdns::dnsd
