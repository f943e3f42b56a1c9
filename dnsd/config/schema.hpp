// SPDX-License-Identifier: Apache-2.0
// Types to describe the format of a configuration (config_fields() in sections.cpp).  A Codec reads
// and prints one kind of value; a section is a list of fields, each a key, a member and a codec.
// Reading, printing, the list of known keys and the remedy for a misspelt one all come from that
// one table.
#pragma once

#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "dnsd/config/enum_names.hpp"
#include "registry/base/finding.hpp"
#include "registry/base/host_name.hpp"
#include "registry/base/printable.hpp"
#include "registry/base/result.hpp"
#include "registry/manifest/document.hpp"

namespace meshdns::dnsd::schema {

using Json = rapidjson::PrettyWriter<rapidjson::StringBuffer>;
using registry::Node;

inline void print_text(Json& json, std::string_view text) {
  json.String(text.data(), static_cast<rapidjson::SizeType>(text.size()));
}

inline void print_key(Json& json, std::string_view key) {
  json.Key(key.data(), static_cast<rapidjson::SizeType>(key.size()));
}

// The lines of the keys of a text, as "sources[0].files.path".
using KeyLines = std::map<std::string, std::uint32_t, std::less<>>;

// The current place in the configuration, the list of findings, and the lines of known keys.
class Place {
 public:
  Place(std::string_view file, registry::FindingList& findings, KeyLines& lines)
      : file_(file), findings_(&findings), lines_(&lines) {}

  Place at(std::string_view key) const;
  Place at(std::size_t index) const;
  void note(std::uint32_t line) const { lines_->emplace(key_, line); }
  void error(std::uint32_t line, std::string message) const;
  void warn(std::uint32_t line, std::string message) const;

 private:
  void report(registry::Severity severity, std::uint32_t line, std::string message) const;

  std::string file_;
  std::string key_;
  registry::FindingList* findings_;
  KeyLines* lines_;
};

// Reports that `node` has the wrong type.
void wrong_type(const Node& node, const Place& place, std::string_view wanted);
// False, after a finding, if `node` is no map.
bool is_mapping(const Node& node, const Place& place);

template <typename V>
struct Codec {
  // nullopt after a finding: the value keeps its default.
  std::function<std::optional<V>(const Node&, const Place&)> read;
  std::function<void(Json&, const V&)> print;
  std::vector<std::string> keys = {};  // known below this value, relative
};

// Reads and prints one key of a section.  The pointers lead to a section of the type that has the
// key, so that the code for sections is compiled once.
class Access {
 public:
  virtual ~Access() = default;
  virtual void read(const Node& node, const Place& place, void* section) const = 0;
  virtual void print(Json& json, const void* section) const = 0;
};

struct AnyField {
  std::string_view key;
  std::shared_ptr<const Access> access;
  std::vector<std::string> keys_below;
};
using Fields = std::vector<AnyField>;
AnyField make_field(std::string_view key, std::unique_ptr<const Access> access,
                    const std::vector<std::string>& keys_below);

// A key of a section of the type S.
template <typename S>
struct Field {
  AnyField any;
};

// `read`: (const Node&, const Place&, S&); `print`: (Json&, const S&).
template <typename S, typename Read, typename Print>
Field<S> field_of(std::string_view key, const Read& read, const Print& print,
                  const std::vector<std::string>& keys_below = {}) {
  class AccessTo final : public Access {
   public:
    AccessTo(const Read& read, const Print& print) : read_(read), print_(print) {}
    void read(const Node& node, const Place& place, void* section) const override {
      read_(node, place, *static_cast<S*>(section));
    }
    void print(Json& json, const void* section) const override {
      print_(json, *static_cast<const S*>(section));
    }

   private:
    std::decay_t<Read> read_;  // functions, too
    std::decay_t<Print> print_;
  };
  return {make_field(key, std::make_unique<AccessTo>(read, print), keys_below)};
}

template <typename S, typename V>
Field<S> field(std::string_view key, V S::* member, const std::type_identity_t<Codec<V>>& codec) {
  return field_of<S>(
      key,
      [=, read = codec.read](const Node& node, const Place& place, S& section) {
        if (auto value = read(node, place)) section.*member = *std::move(value);
      },
      [=, print = codec.print](Json& json, const S& section) { print(json, section.*member); },
      codec.keys);
}

// ---- single values

// `node` as text.  nullopt, after a finding, if it is a list, a mapping or null.
std::optional<std::string_view> read_text(const Node& node, const Place& place);

// `parse`: Result<V>(std::string_view); `format`: the text of a V.
template <typename Parse, typename Format>
auto text_value(Parse parse, Format format) {
  using V = typename std::invoke_result_t<Parse, std::string_view>::value_type;
  return Codec<V>{[=](const Node& node, const Place& place) -> std::optional<V> {
                    const auto text = read_text(node, place);
                    if (!text) return std::nullopt;
                    auto value = parse(*text);
                    if (value) return *std::move(value);
                    place.error(node.line(), value.error().message);
                    return std::nullopt;
                  },
                  [=](Json& json, const V& value) { print_text(json, format(value)); }};
}

// Prints a text as it is, and any other value as its to_string() says.
template <typename Parse>
auto text_value(Parse parse) {
  return text_value(parse, []<typename V>(const V& value) {
    if constexpr (std::is_same_v<V, std::string>)
      return std::string_view(value);
    else if constexpr (requires { value.to_string(); })
      return value.to_string();
    else
      return to_string(value);
  });
}

Codec<std::string> text(std::size_t max_length = 4096);
Codec<bool> boolean();
// A whole number from `min` to `max`; not in quotes.
Codec<std::uint32_t> number(std::uint32_t min, std::uint32_t max);
Codec<double> share();

// The index of the text in `names`; nullopt after a finding.
std::optional<std::size_t> read_choice(const Node& node, const Place& place,
                                       std::span<const std::string_view> names);

template <typename E>
Codec<E> enumeration() {
  return {[](const Node& node, const Place& place) -> std::optional<E> {
            std::array<std::string_view, std::size(EnumNames<E>::table)> names;
            std::ranges::copy(EnumNames<E>::table | std::views::values, names.begin());
            const auto index = read_choice(node, place, names);
            if (!index) return std::nullopt;
            return EnumNames<E>::table[*index].first;
          },
          [](Json& json, const E& value) { print_text(json, name_of(value)); }};
}

// ---- values of several parts

template <typename V>
Codec<std::vector<V>> list(const Codec<V>& element) {
  return {[=](const Node& node, const Place& place) -> std::optional<std::vector<V>> {
            if (!node.is_sequence()) {
              wrong_type(node, place, "a list");
              return std::nullopt;
            }
            std::vector<V> values;
            std::size_t index = 0;
            for (const Node& item : node) {
              const Place at = place.at(index++);
              at.note(item.line());
              if (auto value = element.read(item, at)) values.push_back(*std::move(value));
            }
            if (values.size() != node.size()) return std::nullopt;  // reported by the element
            return values;
          },
          [=](Json& json, const std::vector<V>& values) {
            json.StartArray();
            for (const V& value : values) element.print(json, value);
            json.EndArray();
          },
          element.keys};
}

// As `codec`, but a text of `complain` about a value ("" = none) is an error.
template <typename V, typename Complain>
Codec<V> checked(const Codec<V>& codec, Complain complain) {
  Codec<V> result = codec;
  result.read = [=](const Node& node, const Place& place) -> std::optional<V> {
    auto value = codec.read(node, place);
    if (!value) return std::nullopt;
    std::string complaint = complain(*value);
    if (complaint.empty()) return value;
    place.error(node.line(), std::move(complaint));
    return std::nullopt;
  };
  return result;
}

// A list that must not be empty; `remedy` is appended to the error.
template <typename V>
Codec<std::vector<V>> non_empty(const Codec<std::vector<V>>& codec, std::string_view remedy) {
  return checked(codec, [=](const std::vector<V>& values) {
    return values.empty() ? "is empty; " + std::string(remedy) : std::string();
  });
}

// "" stands for nullopt.
template <typename V>
Codec<std::optional<V>> optional(const Codec<V>& codec) {
  return {[=](const Node& node, const Place& place) -> std::optional<std::optional<V>> {
            if (node.is_scalar() && node.is_quoted() && node.text().empty())
              return std::optional<V>();
            auto value = codec.read(node, place);
            if (!value) return std::nullopt;
            return value;
          },
          [=](Json& json, const std::optional<V>& value) {
            if (value)
              codec.print(json, *value);
            else
              print_text(json, "");
          },
          codec.keys};
}

// A list, for which a single value may stand; "" is the empty list.
template <typename V>
Codec<std::vector<V>> one_or_list(const Codec<V>& element) {
  const auto one = optional(element);
  const auto many = list(element);
  return {[=](const Node& node, const Place& place) -> std::optional<std::vector<V>> {
            if (node.is_sequence()) return many.read(node, place);
            auto value = one.read(node, place);
            if (!value) return std::nullopt;
            std::vector<V> values;
            if (*value) values.push_back(**std::move(value));
            return values;
          },
          [=](Json& json, const std::vector<V>& values) {
            if (values.size() > 1) return many.print(json, values);
            one.print(json, values.empty() ? std::optional<V>() : std::optional(values.front()));
          },
          element.keys};
}

// A mapping whose keys have no names of ours; a null is the empty one.  `read_entry` puts one entry
// into the mapping; `print_value` prints one value.
template <typename M, typename ReadEntry, typename PrintValue>
Codec<M> mapping(const ReadEntry& read_entry, const PrintValue& print_value) {
  return {[=](const Node& node, const Place& place) -> std::optional<M> {
            M entries;
            if (node.is_null()) return entries;
            if (!is_mapping(node, place)) return std::nullopt;
            for (const Node& entry : node) read_entry(entry, place.at(entry.key()), entries);
            return entries;
          },
          [=](Json& json, const M& entries) {
            json.StartObject();
            for (const auto& [key, value] : entries) {
              print_key(json, key);
              print_value(json, value);
            }
            json.EndObject();
          }};
}

// ---- sections

// The remedy for an unknown key.  `siblings` are the keys that could stand there.
std::string unknown_key_message(std::string_view key, const std::vector<std::string>& siblings);

// The keys of `parts`, which have a `key` and `keys_below`.
template <typename Parts>
std::vector<std::string> keys_of(const Parts& parts) {
  std::vector<std::string> keys;
  for (const auto& part : parts) {
    keys.emplace_back(part.key);
    for (const std::string& below : part.keys_below)
      keys.push_back(std::string(part.key) + "." + below);
  }
  return keys;
}

// The map `node`, whose keys are those of `fields`, into the section.  False, after a finding, if
// it is no map.
bool read_fields(const Fields& fields, const Node& node, const Place& place, void* section);
void print_fields(const Fields& fields, Json& json, const void* section);

template <typename S>
Fields fields_of(std::initializer_list<Field<S>> fields) {
  Fields any;
  for (const Field<S>& f : fields) any.push_back(f.any);
  return any;
}

// A map with the keys of `fields`; a null is the empty map.  `check` looks at the whole section.
template <typename S>
Codec<S> section(std::initializer_list<Field<S>> fields,
                 void (*check)(S&, const Node&, const Place&) = nullptr) {
  const auto shared = std::make_shared<const Fields>(fields_of(fields));
  return {[=](const Node& node, const Place& place) -> std::optional<S> {
            S value{};
            if (node.is_null()) return value;
            if (!read_fields(*shared, node, place, &value)) return std::nullopt;
            if (check != nullptr) check(value, node, place);
            return value;
          },
          [=](Json& json, const S& value) { print_fields(*shared, json, &value); },
          keys_of(*shared)};
}

// A map inside a section whose values are members of that section.
template <typename S>
Field<S> inner_map(std::string_view key, std::initializer_list<Field<S>> fields) {
  const auto shared = std::make_shared<const Fields>(fields_of(fields));
  return field_of<S>(
      key,
      [=](const Node& node, const Place& place, S& section) {
        if (!node.is_null()) read_fields(*shared, node, place, &section);
      },
      [=](Json& json, const S& section) { print_fields(*shared, json, &section); },
      keys_of(*shared));
}

// The line of `key` in a section, for its check.
std::uint32_t line_of(const Node& section, std::string_view key);

}  // namespace meshdns::dnsd::schema
