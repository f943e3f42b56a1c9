// SPDX-License-Identifier: Apache-2.0
// Words that thousands of objects share (namespaces, networks, clusters), stored once and compared
// by address.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "registry/base/hash.hpp"
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
struct SymbolHash {
  std::size_t operator()(const SymbolRef& symbol) const {
    return std::hash<const Symbol*>()(symbol.get());
  }
};

// Equal texts give the same Symbol.  Control thread.
class SymbolTable {
 public:
  SymbolRef intern(std::string_view text);
  // The symbol if anybody uses it, else null.
  SymbolRef find(std::string_view text) const;
  // Forgets the symbols that nobody else holds, when there may be many: the table has doubled since
  // the last time.  The cost of a walk over all is so spread over the symbols that were added.
  void sweep_if_grown();
  std::size_t size() const { return symbols_.size(); }

 private:
  static constexpr std::size_t kFirstSweep = 1024;

  TextViewMap<SymbolRef> symbols_;        // keys point into the symbols
  std::size_t next_sweep_ = kFirstSweep;  // at this size
};

}  // namespace meshdns::registry
