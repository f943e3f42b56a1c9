// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/object_outline.hpp"

#include <array>
#include <cstddef>

#include "registry/source/kubernetes/node_text.hpp"

namespace meshdns::registry::kubernetes {
namespace {

// Names have 253 octets at most.
constexpr std::size_t kLongestValue = 512;

// Behind the closing quote of the string whose text begins at `from`; npos: it has none.
std::size_t end_of_string(std::string_view text, std::size_t from) {
  for (std::size_t i = from; i < text.size(); ++i) {
    if (text[i] == '"') return i + 1;
    if (text[i] == '\\') ++i;
  }
  return std::string_view::npos;
}

bool is_followed_by_colon(std::string_view text, std::size_t from) {
  const std::size_t next = text.find_first_not_of(" \t\r\n", from);
  return next != std::string_view::npos && text[next] == ':';
}

class Scanner {
 public:
  explicit Scanner(bool is_event) : metadata_level_(is_event ? 2 : 1) {}

  ObjectOutline scan(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (c == '{' || c == '[') open();
      if ((c == '}' || c == ']') && depth_ > 0) --depth_;
      if (c != '"') continue;
      const std::size_t end = end_of_string(text, i + 1);
      if (end == std::string_view::npos) break;
      take(text.substr(i + 1, end - i - 2).substr(0, kLongestValue),
           is_followed_by_colon(text, end));
      i = end - 1;
    }
    return outline_;
  }

 private:
  void open() {
    ++depth_;
    if (depth_ < keys_.size()) keys_[depth_] = {};
  }

  void take(std::string_view string, bool is_key) {
    if (depth_ >= keys_.size()) return;
    if (is_key)
      keys_[depth_] = string;
    else
      take_value(keys_[depth_], string);
  }

  void take_value(std::string_view key, std::string_view value) {
    const bool is_event = metadata_level_ == 2;
    if (is_event && depth_ == 1 && key == "type") outline_.event = value;
    const bool is_in_object = !is_event || keys_[1] == "object";
    if (!is_in_object || depth_ != metadata_level_ + 1 || keys_[metadata_level_] != "metadata")
      return;
    if (key == "namespace") outline_.object.ns = value;
    if (key == "name") outline_.object.name = value;
    if (key == "resourceVersion") outline_.resource_version = value;
  }

  std::size_t metadata_level_;
  std::size_t depth_ = 0;
  std::array<std::string_view, 4> keys_;  // the latest of each level
  ObjectOutline outline_;
};

}  // namespace

ObjectRef ref_of(const Node& object) {
  const Node* const metadata = object.find("metadata");
  return {text_of(metadata, "namespace"), text_of(metadata, "name")};
}

ObjectOutline outline_of_object(std::string_view text) { return Scanner(false).scan(text); }

ObjectOutline outline_of_event(std::string_view text) { return Scanner(true).scan(text); }

}  // namespace meshdns::registry::kubernetes
