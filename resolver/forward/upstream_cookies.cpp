// SPDX-License-Identifier: Apache-2.0
#include "resolver/forward/upstream_cookies.hpp"

namespace meshdns::dnsd {

UpstreamCookies::UpstreamCookies(RandomPool& random) : client_(kClientSize, '\0') {
  random.fill(client_.data(), client_.size());
}

UpstreamCookies::Verdict UpstreamCookies::judge(std::string_view option, Millis now) const {
  if (option.empty()) return is_expected(now) ? Verdict::Missing : Verdict::Absent;
  return option.starts_with(client_) ? Verdict::Ours : Verdict::Foreign;
}

void UpstreamCookies::learn(std::string_view option) {
  failures_ = 0;
  if (option.size() > client_.size() && option.size() <= kMaxSize)
    server_ = option.substr(client_.size());
}

bool UpstreamCookies::note_stream_reply(std::string_view option, Millis now) {
  if (!option.starts_with(client_)) return lose(now);
  learn(option);
  return false;
}

bool UpstreamCookies::note_stream_failure(Millis now) {
  return ++failures_ >= kMaxFailures && lose(now);
}

bool UpstreamCookies::lose(Millis now) {
  const bool is_news = is_expected(now);
  failures_ = 0;
  server_.clear();
  trusting_until_ = now + kTrustTime;
  return is_news;
}

}  // namespace meshdns::dnsd
