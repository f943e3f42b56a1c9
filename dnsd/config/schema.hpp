// SPDX-License-Identifier: Apache-2.0
// Types to describe the format of a configuration (config_codec() in load.cpp).  A Codec reads and
// prints one kind of value; a section is a list of fields, each a key, a member and a codec.
// Reading, printing, the list of known keys and the remedy for a misspelt one all come from that
// one table.
#pragma once

#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
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

// The current place in the configuration, and the list of findings.
class Place {
 public:
  Place(std::string_view file, registry::FindingList& findings)
      : file_(file), findings_(&findings) {}

  Place at(std::string_view key) const;
  Place at(std::size_t index) const;
  void error(std::uint32_t line, std::string message) const;
  void warn(std::uint32_t line, std::string message) const;

 private:
  void report(registry::Severity severity, std::uint32_t line, std::string message) const;

  std::string file_;
  std::string key_;
  registry::FindingList* findings_;
};

// Reports that `node` has the wrong type.
void wrong_type(const Node& node, const Place& place, std::string_view wanted);

template <typename V>
struct Codec {
  // nullopt after a finding: the value keeps its default.
  std::function<std::optional<V>(const Node&, const Place&)> read;
  std::function<void(Json&, const V&)> print;
  std::vector<std::string> keys = {};  // known below this value, relative
};

// Reads and prints one key of a section of any type, so that the code for sections is compiled
// once.  The pointers lead to a section of the type that has the member.
class AnyMember {
 public:
  virtual ~AnyMember() = default;
  virtual void read(const Node& node, const Place& place, void* section) const = 0;
  virtual void print(Json& json, const void* section) const = 0;
};

struct AnyField {
  std::string_view key;
  std::shared_ptr<const AnyMember> member;
  std::vector<std::string> keys_below;
};

template <typename S>
class Member : public AnyMember {
 public:
  void read(const Node& node, const Place& place, void* section) const final {
    read_into(node, place, *static_cast<S*>(section));
  }
  void print(Json& json, const void* section) const final {
    print_from(json, *static_cast<const S*>(section));
  }

 private:
  virtual void read_into(const Node& node, const Place& place, S& section) const = 0;
  virtual void print_from(Json& json, const S& section) const = 0;
};

// One of the fields of S.
template <typename S>
struct Field {
  AnyField any;
};

template <typename S, typename V>
class MemberOfType final : public Member<S> {
 public:
  MemberOfType(V S::* member, const Codec<V>& codec) : member_(member), codec_(codec) {}

 private:
  void read_into(const Node& node, const Place& place, S& section) const override {
    if (auto value = codec_.read(node, place)) section.*member_ = *std::move(value);
  }
  void print_from(Json& json, const S& section) const override {
    codec_.print(json, section.*member_);
  }

  V S::* member_;
  Codec<V> codec_;
};

template <typename S, typename V>
Field<S> field(std::string_view key, V S::* member, const std::type_identity_t<Codec<V>>& codec) {
  const AnyMember* const how = new MemberOfType<S, V>(member, codec);
  return {{key, std::shared_ptr<const AnyMember>(how), codec.keys}};
}

// ---- single values

// `parse`: Result<V>(std::string_view); `format`: std::string(const V&).
template <typename Parse, typename Format>
auto text_value(Parse parse, Format format) {
  using V = typename std::invoke_result_t<Parse, std::string_view>::value_type;
  return Codec<V>{[=](const Node& node, const Place& place) -> std::optional<V> {
                    if (!node.is_scalar() || node.is_null()) {
                      wrong_type(node, place, "text");
                      return std::nullopt;
                    }
                    auto value = parse(node.text());
                    if (value) return *std::move(value);
                    place.error(node.line(), value.error().message);
                    return std::nullopt;
                  },
                  [=](Json& json, const V& value) { print_text(json, format(value)); }};
}

Codec<std::string> text(std::size_t max_length = 4096);
Codec<bool> boolean();
// A whole number from `min` to `max`; not in quotes.
Codec<std::uint32_t> number(std::uint32_t min, std::uint32_t max);
Codec<double> share();

template <typename E>
Codec<E> enumeration() {
  const auto parse = [](std::string_view name) -> Result<E> {
    if (const auto value = value_of<E>(name)) return *value;
    std::string choices;
    for (const auto& [value, choice] : EnumNames<E>::table) {
      choices += choices.empty() ? "" : ", ";
      choices += choice;
    }
    return fail(in_quotes(name) + " is not one of: " + choices);
  };
  return text_value(parse, [](E value) { return std::string(name_of(value)); });
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
            for (const Node& item : node)
              if (auto value = element.read(item, place.at(index++)))
                values.push_back(*std::move(value));
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

// ---- sections

// The remedy for an unknown key.  `siblings` are the keys that could stand there.
std::string unknown_key_message(std::string_view key, const std::vector<std::string>& siblings);

std::vector<std::string> keys_of(const std::vector<AnyField>& fields);
// The map `node`, whose keys are those of `fields`, into the section.  False, after a finding, if
// it is no map.
bool read_fields(const std::vector<AnyField>& fields, const Node& node, const Place& place,
                 void* section);
void print_fields(const std::vector<AnyField>& fields, Json& json, const void* section);

// A map with the keys of `fields`; a null is the empty map.  `check` looks at the whole section.
template <typename S>
Codec<S> section(std::initializer_list<Field<S>> fields,
                 void (*check)(const S&, const Node&, const Place&) = nullptr) {
  const auto shared = std::make_shared<std::vector<AnyField>>();
  for (const Field<S>& f : fields) shared->push_back(f.any);
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

// The line of `key` in a section, for its check.
std::uint32_t line_of(const Node& section, std::string_view key);

}  // namespace meshdns::dnsd::schema
