// SPDX-License-Identifier: Apache-2.0
#include "dnsd/kernel/kernel_offers.hpp"

namespace meshdns::dnsd {

bool KernelOffers::is_open(std::uint64_t now) {
  if (now >= second_ends_) {
    second_ends_ = now + kSecondNs;
    left_ = kPerSecond;
  }
  return left_ > 0 && moment_.is_usable();
}

void KernelOffers::offer(const KernelAnswer& answer, std::uint64_t now) {
  const std::uint64_t hash = feed_->hash_of(answer) ^ answer.generation * 0xff51afd7ed558ccdULL;
  Recent& recent = recent_[hash % kRecent];
  if (recent.hash == hash && now < recent.until) return;
  --left_;
  if (feed_->offer(moment_, answer)) recent = {hash, now + kSecondNs};
}

}  // namespace meshdns::dnsd
