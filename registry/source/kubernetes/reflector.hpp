// SPDX-License-Identifier: Apache-2.0
// Follows one collection of the API: lists it, watches it, and lists again where the watch cannot
// go on.  Kubernetes API concepts, "Efficient detection of changes"; KEP-3157 (streaming lists).
//
// Handles all faults of the server, the network and proxies: pages whose token expires,
// versions that are gone, watches that end, stall, repeat themselves or bring garbage, refusals of
// every kind.  Objects that were handed over stay in any case until a whole list has
// shown that they are gone.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "registry/manifest/document.hpp"
#include "registry/source/backoff.hpp"
#include "registry/source/kubernetes/json_cutter.hpp"
#include "registry/source/kubernetes/transport.hpp"
#include "registry/source/scheduler.hpp"
#include "registry/source/source.hpp"

namespace meshdns::registry::kubernetes {

// The objects that a reflector follows.
struct Collection {
  std::string path;  // "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices"
  std::string api_version;
  std::string kind;  // "EndpointSlice"
  std::string label_selector;
  std::string field_selector;
  Content content = Content::Objects;
  bool is_watched = true;  // false: a list is enough
  friend bool operator==(const Collection&, const Collection&) = default;
};

struct ReflectorOptions {
  unsigned page_size = 500;
  // Servers send bookmarks every minute: what is silent for longer is asked anew.
  Milliseconds silence_limit{100'000};
  // Without HTTP/2 nothing but its own events shows that the connection of a watch still works
  // (PathProbe).  Such watches are short, and nearly always followed by the next one over the
  // same connection.
  Milliseconds lone_silence_limit{40'000};
  Milliseconds lone_watch_timeout{25'000};  // up to a fifth more
  Milliseconds answer_limit{20'000};        // until an answer begins, and between its parts
  Milliseconds watch_answer_limit{15'000};  // until a watch begins, for which a server does no work
  Milliseconds watch_timeout{300'000};      // asked of the server: between this and twice as long
  Milliseconds short_watch{1'000};          // a watch that ends sooner is not resumed at once
  Milliseconds first_retry{100};
  Milliseconds retry_limit{4'000};              // of what may be over at any moment
  Milliseconds refused_retry_limit{30'000};     // of 401 and 404
  Milliseconds forbidden_retry_limit{120'000};  // of 403: once a minute at most
  // An empty list where there were this many objects must be confirmed by another one.
  std::uint64_t suspicious_objects = 10;
  Milliseconds confirmation_delay{10'000};
  CutterLimits cutter;
  // The text of one list, decompressed: 500 objects of the 8 MiB that etcd takes at most.
  std::uint64_t list_bytes = std::uint64_t{4} << 30;
};

struct ReflectorStatus : CollectionProgress {
  enum class Trouble : std::uint8_t {
    None,
    Unreachable,   // no answer, or one that was cut short
    Unauthorized,  // 401
    Forbidden,     // 403
    Absent,        // 404: there is no such kind
    Failing,       // anything else
  };
  Trouble trouble = Trouble::None;
  std::uint64_t nameless = 0;    // of the latest list: could not be read, nor which object it is
  Milliseconds heard_at{0};      // the scheduler's time of the last sign of life
  std::uint64_t connection = 0;  // ResponseHead::connection of the latest answer
};

class ReflectorListener {
 public:
  virtual ~ReflectorListener() = default;
  // An object is new or has changed.  Returns its number for on_listed; nullopt: it is no object.
  virtual std::optional<std::uint64_t> on_object(const Node& object,
                                                 std::span<const DocumentProblem> problems,
                                                 bool is_initial) = 0;
  // It is there, or has changed, and cannot be read: what was known of it before may stay.  nullopt
  // where it has no name.
  virtual std::optional<std::uint64_t> on_unreadable(const ObjectRef& object,
                                                     std::string_view why) = 0;
  virtual std::optional<std::uint64_t> on_deleted(const ObjectRef& object) = 0;
  // Everything there is has been handed over since the last call: what is not in `seen` (sorted) is
  // gone.
  virtual void on_listed(std::vector<std::uint64_t> seen) = 0;
  // status() has changed in more than numbers.
  virtual void on_state() = 0;
  // Returns whether to try again now; asked again a second later.
  virtual bool may_retry() = 0;
};

// Facts about the server that all its reflectors share.
struct ServerAbilities {
  bool streams_lists = true;  // until it says otherwise
  bool multiplexes = true;    // as in ResponseHead
  // When anything came over each connection.
  std::map<std::uint64_t, Milliseconds> heard_at = {};
};

// Control thread.
class Reflector final : private ResponseListener {
 public:
  struct Environment {
    Transport& transport;
    Scheduler& scheduler;
    JsonParser& parser;
    ServerAbilities& server;
    Backoff::Random random;
  };
  // REQUIRES: what the environment refers to, and the listener, outlive the reflector.
  Reflector(Collection collection, const ReflectorOptions& options, Environment environment,
            ReflectorListener& listener);
  ~Reflector() override;

  void start();
  // Lists everything again, keeping what is served meanwhile.
  void resync();
  // Does not wait any longer, where it waits.
  void retry_now();
  // Opens a watch again if nothing has come over its connection since `when`, and that is not the
  // one that works.
  void leave_path_silent_since(Milliseconds when, std::optional<std::uint64_t> working);

  const Collection& collection() const { return collection_; }
  const ReflectorStatus& status() const { return status_; }

 private:
  using Trouble = ReflectorStatus::Trouble;
  enum class Phase : std::uint8_t { Idle, Page, StreamedList, Watch };
  enum class Next : std::uint8_t { GoOn, Resync, Retry, Wait };
  // One event, or one item of a list, which is initial.
  struct Change {
    ObjectOutline outline;
    const Node* object = nullptr;  // null: cannot be read
    std::string_view why;          // it cannot
    bool is_deleted() const { return outline.event == "DELETED"; }
  };

  void on_head(const ResponseHead& head) override;
  void on_body(std::string_view part) override;
  void on_end(const Result<void>& end) override;

  void request(Phase phase, std::string query);
  void request_page(std::string_view continue_token);
  void request_watch(Phase phase);
  void open_watch_again();
  Milliseconds watch_length() const;
  Milliseconds allowed_silence() const;
  std::string selectors() const;
  void read_objects(std::string_view part);
  std::expected<const Node*, SyntaxError> parse(std::string_view text, bool is_whole,
                                                std::uint32_t envelope_levels);
  void take_item(std::string_view text, bool is_whole);
  void take_event(std::string_view text, bool is_whole);
  void take_unreadable_event(std::string_view text, std::string_view why);
  void take_change(const Change& change);
  void take_initial(const Change& change);
  std::optional<std::uint64_t> hand_over(const Change& change, bool is_initial);
  void take_bookmark(const Node& object);
  void take_error_event(const Node& object);
  bool is_news(std::string_view version);
  void finish_page();
  bool finish_list(std::string version);
  void finish_watch();
  void judge_refusal();
  void judge_gone();
  void break_off(std::string message);
  void fail(Trouble trouble, std::string message, std::optional<Milliseconds> at_least = {});
  Milliseconds retry_limit_of(Trouble trouble) const;
  void wait(Milliseconds delay);
  void proceed();
  void set_trouble(Trouble trouble, std::string message);
  void guard();
  void look_for_silence();
  void note_heard();

  const Collection collection_;
  const ReflectorOptions options_;
  Environment env_;
  ReflectorListener& listener_;
  Backoff backoff_;

  ReflectorStatus status_;
  Phase phase_ = Phase::Idle;
  bool can_resume_ = false;  // a watch from status_.resource_version is the way to go on
  bool unpaged_ = false;     // the next list comes in one piece: a token has expired
  bool was_empty_ = false;   // the list before was suspiciously empty
  unsigned gone_in_a_row_ = 0;
  Milliseconds listed_at_{0};
  unsigned broken_in_a_row_ = 0;
  std::optional<std::uint64_t> latest_;  // version_number of resource_version
  std::vector<std::uint64_t> seen_;
  std::uint64_t nameless_in_list_ = 0;

  // The exchange under way.
  ResponseHead head_;
  std::optional<JsonCutter> cutter_;
  std::uint64_t list_bytes_ = 0;  // read of the list under way
  std::string refusal_;           // the body of a response that is no 200
  Next next_ = Next::GoOn;
  std::string broken_why_;
  std::optional<Milliseconds> error_retry_;
  Milliseconds begun_at_{0};
  std::uint64_t events_before_ = 0;

  std::unique_ptr<Exchange> exchange_;
  std::unique_ptr<Timer> retry_;
  std::unique_ptr<Timer> watchdog_;
};

std::string_view to_string(ReflectorStatus::Trouble trouble);

}  // namespace meshdns::registry::kubernetes
