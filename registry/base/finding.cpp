// SPDX-License-Identifier: Apache-2.0
#include "registry/base/finding.hpp"

#include <utility>

#include "registry/base/counted.hpp"
#include "registry/base/enum_text.hpp"

namespace meshdns::registry {

void FindingList::add(Finding finding) {
  if (kept_.size() < max_) return kept_.push_back(std::move(finding));
  ++left_out_;
  left_out_errors_ |= finding.severity == Severity::Error;
}

std::vector<Finding> FindingList::take() && {
  if (left_out_ > 0) {
    Finding more;
    more.severity = left_out_errors_ ? Severity::Error : Severity::Warning;
    more.path = kept_.empty() ? std::string() : kept_.front().path;
    more.message = "and " + counted(left_out_, "more finding");
    kept_.push_back(std::move(more));
  }
  return std::move(kept_);
}

std::string list_element(std::string_view list, std::size_t index) {
  return std::string(list) + "[" + std::to_string(index) + "]";
}

std::string_view to_string(Severity severity) {
  return enum_text<Severity::Error>(severity, {"note", "warning", "error"});
}

std::string Finding::to_string() const {
  std::string out = path;
  if (line != 0) {
    if (!out.empty()) out += ':';
    out += std::to_string(line);
  }
  if (!out.empty()) out += ": ";
  out += registry::to_string(severity);
  out += ": ";
  std::string subject = kind;
  if (!object.empty()) {
    if (!subject.empty()) subject += ' ';
    subject += object;
  }
  if (!subject.empty()) out += subject += ": ";
  if (!field.empty()) {
    out += field;
    out += ": ";
  }
  return out += message;
}

}  // namespace meshdns::registry
