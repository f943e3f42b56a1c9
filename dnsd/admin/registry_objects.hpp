// SPDX-License-Identifier: Apache-2.0
// The JSON objects of the pages below /registry: services, their endpoints, allocated addresses.
#pragma once

#include <string_view>

#include "dnsd/admin/json.hpp"
#include "registry/service_model.hpp"

namespace meshdns::dnsd {

// Writes the object of one service, which is one of services_of() for a record of `host`.  Writes
// nothing if the page does not list the service.  Control thread.
using PutService = void (*)(Json& json, const registry::Registry& registry, std::string_view host,
                            const registry::ServiceRecord& service);
void put_service(Json& json, const registry::Registry& registry, std::string_view host,
                 const registry::ServiceRecord& service);
void put_endpoints(Json& json, const registry::Registry& registry, std::string_view host,
                   const registry::ServiceRecord& service);
void put_vip(Json& json, const registry::Registry& registry, std::string_view host,
             const registry::ServiceRecord& service);

// Writes what identifies the object of a service that has gone.
using PutId = void (*)(Json& json, const registry::ServiceId& id);
void put_service_id(Json& json, const registry::ServiceId& id);
void put_endpoints_id(Json& json, const registry::ServiceId& id);

}  // namespace meshdns::dnsd
