// SPDX-License-Identifier: Apache-2.0
// ldns without its macros `true` and `false`, which break standard headers that follow.
#pragma once

// clang-format off
#include <stdbool.h>  // NOLINT(modernize-deprecated-headers): tells ldns that both exist
#include <ldns/ldns.h>
// clang-format on
