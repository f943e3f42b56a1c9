// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/config_reloader.hpp"

#include <chrono>
#include <ctime>
#include <utility>

#include "dnsd/config/values.hpp"
#include "registry/base/durable_file.hpp"

namespace meshdns::dnsd {
namespace {

// A configuration is read once it has been the same for so long, or after so many looks at it.
constexpr std::chrono::milliseconds kSteady{25};
constexpr int kMaxLooks = 20;
constexpr std::chrono::milliseconds kConfigPoll{1'000};

}  // namespace

void ConfigReloader::reload_soon(uv_loop_t* loop, std::function<void()> on_due) {
  look_soon(loop, std::move(on_due));
  is_asked_ = true;
}

void ConfigReloader::reload_changed_soon(uv_loop_t* loop, std::function<void()> on_due) {
  look_soon(loop, std::move(on_due));
}

void ConfigReloader::watch(uv_loop_t* loop, std::function<void()> on_due) {
  if (path().empty()) return;
  const auto look = [this, loop, on_due = std::move(on_due)] { reload_changed_soon(loop, on_due); };
  // The text tells whether it has changed, whatever version was read.
  start_or_log(file_, loop, path(), kConfigPoll, FileVersion(), look, log_);
}

void ConfigReloader::stop() {
  timer_.close();
  stop_watching();
}

std::uint64_t ConfigReloader::text_hash() const {
  return stable_hash(read_text_file(files_.path).value_or(""));
}

void ConfigReloader::look_soon(uv_loop_t* loop, std::function<void()> on_due) {
  if (timer_.is_active()) return;
  on_due_ = std::move(on_due);
  looks_ = 0;
  text_ = read_text_file(files_.path).value_or("");
  timer_.open(loop, [this] { wait_for_steady_text(); });
  timer_.start(kSteady);
}

void ConfigReloader::wait_for_steady_text() {
  auto text = read_text_file(files_.path).value_or("");
  const bool is_steady = text == text_;
  text_ = std::move(text);
  if (!is_steady && ++looks_ < kMaxLooks) return timer_.start(kSteady);
  const bool is_asked = std::exchange(is_asked_, false);
  if (!is_asked && text_.empty()) return;  // it is being replaced
  const std::uint64_t before = std::exchange(last_text_, stable_hash(text_));
  text_.clear();
  if (is_asked || last_text_ != before) on_due_();
}

std::optional<Config> ConfigReloader::read() {
  if (name().empty()) return std::nullopt;
  ++status_.reloads;
  status_.findings.clear();
  auto loaded = load_config(files_);
  if (!loaded) {
    log_.error(loaded.error().message);
    status_.findings.push_back(loaded.error().message);
  } else {
    for (const auto& finding : loaded->findings) {
      log_.write(finding.severity == registry::Severity::Error ? LogLevel::Error : LogLevel::Warn,
                 finding.to_string());
      status_.findings.push_back(finding.to_string());
    }
  }
  status_.ok = loaded && loaded->valid();
  if (!status_.ok) {
    ++status_.failures;
    log_.error("reload failed; the previous configuration stays in use",
               {{"config", std::string_view(name())}});
    return std::nullopt;
  }
  status_.last_success_unix = std::time(nullptr);
  return std::move(loaded->config);
}

}  // namespace meshdns::dnsd
