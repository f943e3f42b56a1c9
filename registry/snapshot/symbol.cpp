// SPDX-License-Identifier: Apache-2.0
#include "registry/snapshot/symbol.hpp"

namespace meshdns::registry {

SymbolRef SymbolTable::intern(std::string_view text) {
  if (auto it = symbols_.find(text); it != symbols_.end()) return it->second;
  SymbolRef symbol(new Symbol(text));
  symbols_.emplace(symbol->text(), symbol);
  return symbol;
}

SymbolRef SymbolTable::find(std::string_view text) const {
  const auto it = symbols_.find(text);
  return it == symbols_.end() ? SymbolRef() : it->second;
}

void SymbolTable::sweep_if_grown() {
  if (symbols_.size() < next_sweep_) return;
  std::erase_if(symbols_, [](const auto& item) { return item.second->is_unique(); });
  next_sweep_ = kFirstSweep + 2 * symbols_.size();
}

}  // namespace meshdns::registry
