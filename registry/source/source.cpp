#include "registry/source/source.hpp"

#include "registry/snapshot/stored_resource.hpp"

namespace meshdns::registry {

void EncodedResources::push_back(const ParsedResource& parsed) {
  encode_resource(parsed.resource, octets_);
  items_.push_back({octets_.size(), parsed.line});
}

}  // namespace meshdns::registry
