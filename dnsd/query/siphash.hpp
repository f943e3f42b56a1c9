// SPDX-License-Identifier: Apache-2.0
// SipHash-2-4 (Aumasson and Bernstein, 2012): a hash of short messages that nobody without the key
// can make.  Our own, since OpenSSL's EVP_MAC wants a context and a list of parameters for each.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace meshdns::dnsd {

// In the octet order of the authors' reference implementation.  Any thread; never allocates.
std::array<std::uint8_t, 8> siphash_2_4(std::span<const std::uint8_t, 16> key,
                                        std::span<const std::uint8_t> message);

}  // namespace meshdns::dnsd
