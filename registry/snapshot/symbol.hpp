// Words that thousands of objects share (namespaces, networks, clusters), stored once and compared
// by address.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "registry/base/ref.hpp"

namespace meshdns::registry {

// Immutable; any thread may read it.
class Symbol final : public RefCounted {
 public:
  explicit Symbol(std::string_view text) : text_(text) {}
  std::string_view text() const { return text_; }

 private:
  const std::string text_;
};
using SymbolRef = Ref<const Symbol>;

// Equal texts give the same Symbol.  Control thread.
class SymbolTable {
 public:
  SymbolRef intern(std::string_view text);
  // The symbol if anybody uses it, else null.
  SymbolRef find(std::string_view text) const;
  // Forgets the symbols that nobody else holds.
  void sweep();
  std::size_t size() const { return symbols_.size(); }

 private:
  std::unordered_map<std::string_view, SymbolRef> symbols_;  // keys point into the symbols
};

}  // namespace meshdns::registry
