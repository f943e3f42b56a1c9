// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/live_page.hpp"

#include <algorithm>
#include <utility>

#include "dnsd/admin/json.hpp"

namespace meshdns::dnsd {

void add_event(std::string& stream, std::string_view type, std::string_view text) {
  stream += "event: " + std::string(type) + "\n";
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    stream += "data: " + std::string(text.substr(0, end)) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  stream += "\n";
}

HttpResponse LivePage::watch(std::function<std::string()> draw) {
  if (is_closed_) return json_error("the daemon stops", 503);
  std::erase_if(watchers_, [](const auto& watcher) { return watcher->is_closed(); });
  if (watchers_.size() >= kMaxWatchers)
    return json_error(
        "too many browsers show the status page live: at most " + std::to_string(kMaxWatchers),
        503);
  draw_ = std::move(draw);
  HttpResponse response{200, "text/event-stream", {}};
  // The farewell makes it a watch, whose connection does not make room for others.
  response.stream =
      std::make_shared<HttpStream>("event: end\ndata: the browser reads too slowly\n\n");
  response.stream->write(draw_());
  watchers_.push_back(response.stream);
  if (!timer_.is_open()) timer_.open(loop_, [this] { turn(); });
  if (!timer_.is_active()) timer_.repeat(kInterval);
  return response;
}

void LivePage::turn() {
  std::erase_if(watchers_, [](const auto& watcher) { return watcher->is_closed(); });
  if (watchers_.empty()) return timer_.stop();
  const std::string text = draw_();
  for (const auto& watcher : watchers_)
    if (watcher->has_room()) watcher->write(text);
}

void LivePage::close() {
  is_closed_ = true;
  // A browser connects again by itself: to the next daemon, say.
  for (const auto& watcher : watchers_) watcher->finish();
  watchers_.clear();
  draw_ = nullptr;
  timer_.close();
}

}  // namespace meshdns::dnsd
