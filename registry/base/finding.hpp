// SPDX-License-Identifier: Apache-2.0
// Findings: things that are wrong or doubtful about one object, with the place where a person can
// mend them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace meshdns::registry {

// Note: nothing is wrong; a person may have expected something else.
enum class Severity : std::uint8_t { Note, Warning, Error };
std::string_view to_string(Severity severity);  // "note", "warning", "error"

// The field of an element: "spec.hosts[1]".
std::string list_element(std::string_view list, std::size_t index);

// Prints as `PATH:LINE: error|warning|note: KIND NAMESPACE/NAME: FIELD: message`; parts that are
// empty are left out together with their separator.
struct Finding {
  Severity severity = Severity::Error;
  std::string path;        // file, or the name of the source
  std::uint32_t line = 0;  // 1-based; 0 = unknown
  std::string kind;        // "ServiceEntry"; empty when the text is not yet an object
  std::string object;      // "namespace/name", or "name" of a cluster-scoped object
  std::string field;       // "spec.hosts[1]"
  std::string message;

  std::string to_string() const;
  friend bool operator==(const Finding&, const Finding&) = default;
};

// The findings of one text: the first `max` of them, and how many more there were.  A text may be
// wrong in every byte; more findings are not useful and use memory.
class FindingList {
 public:
  explicit FindingList(std::size_t max) : max_(max) {}

  void add(Finding finding);
  bool empty() const { return kept_.empty(); }

  // Returns the findings that were kept and, if there were more, one that counts them, as an Error
  // if one of them is.
  std::vector<Finding> take() &&;

 private:
  std::size_t max_;
  std::vector<Finding> kept_;
  std::size_t left_out_ = 0;
  bool left_out_errors_ = false;
};

}  // namespace meshdns::registry
