// SPDX-License-Identifier: Apache-2.0
#include "registry/manifest/manifest.hpp"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "registry/base/hash.hpp"
#include "registry/manifest/decode.hpp"
#include "registry/manifest/document.hpp"

namespace meshdns::registry {

namespace {

// Takes the documents of one text apart into objects and hands those on.
class ManifestReader {
 public:
  ManifestReader(const ManifestOptions& options, ManifestSink& sink)
      : options_(options),
        sink_(sink),
        listener_([this](Finding&& finding) { sink_.on_finding(std::move(finding)); }) {}

  void on_document(const Document& document) {
    const Node& root = document.root;
    if (root.is_sequence()) return read_items(root, {}, {}, document.problems);
    const TypeMeta type = type_of(root);
    const Node* const items = root.find("items");
    const bool is_list = type.kind.size() >= 4 && type.kind.ends_with("List") &&
                         (items == nullptr || items->is_sequence() || items->is_null());
    if (!is_list) return read_object(root, type, document.problems);
    if (items == nullptr || items->is_null()) return;
    read_items(*items, type, "items", document.problems);
  }

  void on_syntax_error(const SyntaxError& error) {
    sink_.on_finding({Severity::Error,
                      options_.path,
                      error.line,
                      {},
                      {},
                      {},
                      error.message + "; the rest of the file is not read"});
  }

 private:
  using Problems = std::span<const DocumentProblem>;

  void read_object(const Node& object, const TypeMeta& type, Problems problems) {
    Decoded decoded = decode_object(object, type, problems, options_, listener_);
    const bool is_object = decoded.outcome == Decoded::Outcome::Accepted ||
                           decoded.outcome == Decoded::Outcome::Refused;
    if (is_object) warn_of_repetition(decoded.key, object.line());
    if (decoded.outcome == Decoded::Outcome::Accepted)
      sink_.on_resource(std::move(*decoded.resource), object.line());
    else if (decoded.outcome == Decoded::Outcome::Refused)
      sink_.on_refused(decoded.key, object.line());
  }

  // Only a hash of every key is kept: 100,000 objects are 3 MB so, and a collision costs a warning.
  void warn_of_repetition(const ResourceKey& key, std::uint32_t line) {
    if (key.name.empty()) return;
    repetition_key_.assign(1, static_cast<char>(key.kind));
    repetition_key_ += key.ns;
    repetition_key_ += '/';
    repetition_key_ += key.name;
    const std::size_t hash = hash_bytes(repetition_key_);
    const auto [first, is_new] = lines_.try_emplace(hash, line);
    if (is_new) return;
    std::string name = printable(key.ns);
    if (!name.empty()) name += '/';
    name += printable(key.name);
    sink_.on_finding({Severity::Warning,
                      options_.path,
                      line,
                      std::string(to_string(key.kind)),
                      std::move(name),
                      {},
                      "the object is defined again, first on line " +
                          std::to_string(first->second) + "; the later one counts"});
  }

  // Elements have the list's type where they name none: the API leaves it out.
  void read_items(const Node& list, const TypeMeta& list_type, std::string_view list_field,
                  Problems problems) {
    const std::string_view kind = list_type.kind.empty() || list_type.kind == "List"
                                      ? std::string_view()
                                      : list_type.kind.substr(0, list_type.kind.size() - 4);
    const std::string element_prefix = std::string(list_field) + "[";
    report_problems_of_list(list_type, element_prefix, problems);
    std::size_t index = 0;
    for (const Node& item : list) {
      TypeMeta type = type_of(item);
      if (type.kind.empty()) type.kind = kind;
      if (type.api_version.empty() && !kind.empty()) type.api_version = list_type.api_version;
      const std::string prefix = element_prefix + std::to_string(index++) + "].";
      read_object(item, type, take_problems(prefix, element_prefix, problems));
    }
  }

  void report_problems_of_list(const TypeMeta& type, std::string_view element_prefix,
                               Problems problems) {
    for (const DocumentProblem& problem : problems)
      if (!problem.field.starts_with(element_prefix))
        sink_.on_finding({Severity::Error,
                          options_.path,
                          problem.line,
                          printable(type.kind),
                          {},
                          printable(problem.field, 200),
                          problem.message});
  }

  // The problems of one element, their fields told from the element on.  They stand in the order
  // of the elements, so that what was taken or passed need not be looked at again.
  Problems take_problems(const std::string& prefix, std::string_view element_prefix,
                         Problems& problems) {
    own_problems_.clear();
    for (; !problems.empty(); problems = problems.subspan(1)) {
      const DocumentProblem& next = problems.front();
      if (next.field.starts_with(prefix))
        own_problems_.push_back({next.line, next.field.substr(prefix.size()), next.message});
      else if (next.field.starts_with(element_prefix))
        break;
    }
    return own_problems_;
  }

  const ManifestOptions& options_;
  ManifestSink& sink_;
  FindingListener listener_;
  std::vector<DocumentProblem> own_problems_;
  std::unordered_map<std::size_t, std::uint32_t> lines_;  // by the hash of the key
  std::string repetition_key_;
};

}  // namespace

Result<void> read_manifest(std::string_view text, const ManifestOptions& options,
                           ManifestSink& sink) {
  ManifestReader reader(options, sink);
  DocumentLimits limits;
  limits.split_lists = true;
  limits.stop = options.stop;
  const ReadResult read =
      read_documents(text, limits, [&](const Document& document) { reader.on_document(document); });
  if (read) return {};
  reader.on_syntax_error(read.error());
  return fail(options.path + ":" + std::to_string(read.error().line) + ": " + read.error().message);
}

}  // namespace meshdns::registry
