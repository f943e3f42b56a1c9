// SPDX-License-Identifier: Apache-2.0
#include "registry/source/istiod/istiod_source.hpp"

#include <dlfcn.h>
#include <sys/stat.h>
#include <uv.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "registry/base/durable_file.hpp"
#include "registry/base/handle.hpp"
#include "registry/base/host_name.hpp"
#include "registry/base/mailbox.hpp"
#include "registry/base/printable.hpp"
#include "registry/source/backoff.hpp"
#include "registry/source/istiod/held.hpp"

namespace meshdns::registry {
namespace {

using namespace istiod;  // NOLINT(google-build-using-namespace): of this file's own subject

// --- credentials, in files that others replace ---------------------------------------------------

struct Access {
  std::string ca_pem;
  std::string token;
  std::string cert_pem;
  std::string key_pem;
};

// Bundles of all public authorities have a quarter of it.
constexpr std::size_t kMaxAccessFile = std::size_t{1} << 20;

Result<std::string> read_text(const std::string& path) {
  const auto refuse = [&](const std::string& why) { return fail(path + ": " + why); };
  const FileDescriptor file = open_for_reading(path);
  struct stat status{};
  if (!file || fstat(file.get(), &status) != 0)
    return refuse("cannot be read: " + std::generic_category().message(errno));
  if (!S_ISREG(status.st_mode)) return refuse("is not a file");
  auto text = read_to_end(file.get(), kMaxAccessFile);
  if (!text) return refuse("cannot be read: " + text.error().message);
  if (text->size() > kMaxAccessFile) return refuse("is larger than 1 MiB");
  return text;
}

// A token goes into a header, which ends at the first control character.
Result<std::string> read_token(const std::string& path) {
  auto text = read_text(path);
  if (!text) return text;
  text->erase(text->find_last_not_of(" \t\r\n") + 1);
  text->erase(0, text->find_first_not_of(" \t\r\n"));
  if (text->empty()) return fail(path + ": has no token");
  for (const char c : *text)
    if (c <= ' ' || c > '~') return fail(path + ": has characters that no token has");
  return text;
}

// Nothing when there is no such file to read.
Result<void> read_into(const std::string& path, std::string& into,
                       Result<std::string> (*read)(const std::string&)) {
  if (path.empty()) return {};
  auto text = read(path);
  if (!text) return std::unexpected(text.error());
  into = *std::move(text);
  return {};
}

// Reads the files that are named; each at most 1 MiB, and never waits for a FIFO.  An Error names
// the file.
Result<Access> read_access(const IstiodSourceOptions& files) {
  Access access;
  for (const auto& result : {read_into(files.ca_file, access.ca_pem, read_text),
                             read_into(files.token_file, access.token, read_token),
                             read_into(files.cert_file, access.cert_pem, read_text),
                             read_into(files.key_file, access.key_pem, read_text)})
    if (!result) return std::unexpected(result.error());
  return access;
}

// --- the module with gRPC ------------------------------------------------------------------------

constexpr const char* kModuleFile = "meshdns-istiod.so";

// Loads one file and checks that it was built with this program: the interface has no other
// version.
Result<OpenAdsStream*> load_file(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fail(path + " cannot be loaded: " + dlerror());
  const auto* const version = static_cast<const char*>(dlsym(library, kModuleVersionSymbol));
  auto* const open = reinterpret_cast<OpenAdsStream*>(dlsym(library, kModuleOpenSymbol));
  if (version == nullptr || open == nullptr)
    return fail(path + " is not the module of meshdns; install the package again");
  if (std::string_view(version) != MESHDNS_VERSION)
    return fail(path + " is of version " + version + ", but meshdnsd is of version " +
                MESHDNS_VERSION + "; install the package again, then restart meshdnsd");
  return open;
}

// The files that may be the module, in the order in which they are tried: beside the program (a
// build tree), and in the folder that the package has for it.
std::vector<std::string> module_paths() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string packaged = std::string(MESHDNS_MODULE_DIR) + "/" + kModuleFile;
  if (error) return {packaged};
  return {(program.parent_path() / kModuleFile).string(), packaged};
}

// Loads the first of the files that exists.  The module stays loaded until the process ends,
// because gRPC's threads cannot be told to leave its code.  An Error names the file and the remedy.
Result<OpenAdsStream*> load_module() {
  const std::vector<std::string> paths = module_paths();
  std::error_code error;
  for (const std::string& path : paths)
    if (std::filesystem::exists(path, error)) return load_file(path);
  return fail("the module for istiod sources is not installed: there is no " + paths.back() +
              "; install the whole package, or build with MESHDNS_ISTIOD=ON");
}

// --- the source ----------------------------------------------------------------------------------

constexpr Milliseconds kFirstRetry{1'000};
constexpr Milliseconds kLastRetry{30'000};
// A stream that lived for so long without a push has not failed: a delta stream need not have one.
constexpr Milliseconds kGoodStream{60'000};

// istiod, or whoever answers in its place, may write the reason.
constexpr std::size_t kMaxEndReason = 500;

std::string host_of_address(const std::string& address) {
  std::string host = address.substr(0, address.rfind(':'));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return host;
}

std::string port_of_address(const std::string& address) {
  return address.substr(address.rfind(':') + 1);
}

// One target for the addresses of each family, as gRPC wants it.
std::vector<std::string> targets_of(const std::vector<IpAddress>& addresses,
                                    const std::string& port) {
  std::string v4;
  std::string v6;
  for (const IpAddress& address : addresses) {
    if (address.is_v4())
      v4.append(v4.empty() ? "ipv4:" : ",").append(address.to_string());
    else
      v6.append(v6.empty() ? "ipv6:[" : ",[").append(address.to_string()).append("]");
    (address.is_v4() ? v4 : v6).append(":").append(port);
  }
  std::vector<std::string> targets;
  for (std::string* const target : {&v4, &v6})
    if (!target->empty()) targets.push_back(std::move(*target));
  return targets;
}

// By the API of the stream.
using HeldByApi = std::variant<HeldNames, HeldWorkloads>;

HeldByApi held_by(const IstiodSourceOptions& options) {
  if (options.api == AdsApi::Names) return HeldNames(options.name);
  return HeldWorkloads(options.name, {options.cluster_domain, options.node.network});
}

// A push that has been compared with what is held.
struct TakenPush {
  HeldDifference difference;
  std::string version;
  std::size_t bytes = 0;
  std::size_t size = 0;     // names or addresses that are held now
  std::size_t refused = 0;  // of them, those that are faulty now
};

// Control thread, except the calls of the stream.  At most one push is on its way from the stream's
// thread to the control thread: the stream reads the next one when this one is in service, so that
// an istiod that pushes without end is held up by its own connection.
class IstiodSource final : public Source, private AdsListener {
 public:
  IstiodSource(uv_loop_t* loop, IstiodSourceOptions options, ServerLookup& servers,
               SourceSink& sink)
      : options_(std::move(options)),
        servers_(servers),
        sink_(sink),
        scheduler_(make_uv_scheduler(loop)),
        backoff_(kFirstRetry, make_random()),
        held_(held_by(options_)) {
    check_loop(mailbox_.open(loop), "open a mailbox");
    silent_since_ = scheduler_->now();
  }
  ~IstiodSource() override {
    {
      // A push that waits for the control thread waits no longer, nor does any later one.
      const std::lock_guard lock(mutex_);
      is_stopped_ = true;
      changed_.notify_all();
    }
    stream_.reset();
    mailbox_.close();
  }
  IstiodSource(const IstiodSource&) = delete;
  IstiodSource& operator=(const IstiodSource&) = delete;

  void start() override {
    for (const std::string& address : options_.addresses) {
      const std::string host = canonical_host(host_of_address(address));
      if (!IpAddress::parse(host) && !named_.contains(host))
        named_[host] = servers_.use(host, [this] { on_address_known(); });
    }
    connect_in(Milliseconds(0));
  }

  // Repeats what is wrong, and does not wait for the next try.
  void rescan() override {
    if (!findings_.empty())
      repetition_ = scheduler_->after(Milliseconds(0), [this] { repeat_findings(); });
    if (!stream_) connect_in(Milliseconds(0));
  }

  SourceStatus status() const override {
    SourceStatus status;
    status.name = options_.name;
    status.complete = is_complete_;
    status.origins = is_complete_ ? 1 : 0;
    status.broken = counters_.refused > 0 ? 1 : 0;
    status.reads = counters_.pushes + counters_.refused_pushes;
    status.changes = changes_;
    status.last_error = last_error();
    status.control_plane = counters_;
    status.control_plane->silent_seconds =
        std::chrono::duration<double>(scheduler_->now() - silent_since_).count();
    return status;
  }

 private:
  SourceBatch new_batch() const {
    SourceBatch batch;
    batch.source = options_.name;
    batch.complete = is_complete_;
    return batch;
  }

  void say(bool is_warning, std::string text) {
    SourceBatch batch = new_batch();
    batch.notices.push_back({is_warning, std::move(text)});
    sink_.apply(std::move(batch));
  }

  void repeat_findings() {
    SourceBatch batch = new_batch();
    OriginChange& change = batch.changes.emplace_back();
    change.origin = options_.name;
    change.effect = OriginChange::Effect::Keep;
    change.findings = findings_;
    sink_.apply(std::move(batch));
  }

  std::string last_error() const {
    if (!trouble_.empty()) return trouble_;
    if (!refusal_.empty()) return "refused the last push: " + refusal_;
    if (counters_.connected && !is_complete_)
      return "istiod at " + counters_.server + " has not pushed " +
             (options_.api == AdsApi::Names ? "a name table" : "any workload") +
             " yet; compare sources.istiod.node with the workload";
    return {};
  }

  void connect_in(Milliseconds delay) {
    retry_ = scheduler_->after(delay, [this] { connect(); });
  }

  void connect() {
    retry_.reset();
    counters_.server = options_.addresses[next_address_++ % options_.addresses.size()];
    const ServerAddresses server = addresses_of(host_of_address(counters_.server));
    lacks_address_ = server.addresses.empty();
    if (server.is_awaited()) {
      --next_address_;
      return;
    }
    if (lacks_address_) return fail_to_connect("its name cannot be looked up: " + server.reason);
    const auto open = load_module();
    if (!open) return fail_to_connect(open.error().message);
    auto access = read_access(options_);
    if (!access) return fail_to_connect(access.error().message);
    ++counters_.connects;
    began_at_ = scheduler_->now();
    had_push_ = false;
    stream_.reset((*open)(stream_options(server.addresses, *std::move(access)), *this));
  }

  ServerAddresses addresses_of(const std::string& host) const {
    if (const auto address = IpAddress::parse(host)) return {{*address}, {}};
    return named_.at(canonical_host(host))->find();
  }

  // An address of one of the names is known.  An open connection stays.
  void on_address_known() {
    if (!stream_ && lacks_address_) connect_in(Milliseconds(0));
  }

  AdsOptions stream_options(const std::vector<IpAddress>& addresses, Access&& access) {
    AdsOptions stream;
    stream.targets = targets_of(addresses, port_of_address(counters_.server));
    stream.server_name =
        options_.server_name.empty() ? host_of_address(counters_.server) : options_.server_name;
    stream.ca_pem = std::move(access.ca_pem);
    stream.token = std::move(access.token);
    stream.cert_pem = std::move(access.cert_pem);
    stream.key_pem = std::move(access.key_pem);
    stream.api = options_.api;
    stream.transport = options_.transport;
    stream.node = options_.node;
    stream.held = std::visit([](auto& held) { return held.begin_stream(); }, held_);
    return stream;
  }

  // Logs once until a connection succeeds.
  void fail_to_connect(const std::string& why) {
    const bool is_news = trouble_.empty();
    trouble_ = "istiod at " + counters_.server + ": " + printable(why, kMaxEndReason);
    connect_in(backoff_.next(kLastRetry));
    if (is_news)
      say(true, trouble_ + (is_complete_ ? "; the names that it sent stay in use, and meshdns "
                                           "connects again"
                                         : "; meshdns tries again"));
  }

  void note_connected() {
    counters_.connected = true;
    if (!std::exchange(trouble_, {}).empty() || counters_.connects == 1)
      say(false, "connected to istiod at " + counters_.server);
  }

  void take_over(TakenPush&& push) {
    had_push_ = true;
    is_complete_ = true;
    ++counters_.pushes;
    counters_.bytes += push.bytes;
    counters_.changed_names += push.difference.changed;
    counters_.names = push.size;
    counters_.refused = push.refused;
    counters_.version = printable(push.version);
    silent_since_ = scheduler_->now();
    refusal_.clear();
    changes_ += push.difference.changes.size();
    if (!push.difference.changes.empty()) findings_ = push.difference.changes.front().findings;
    SourceBatch batch = new_batch();
    batch.changes = std::move(push.difference.changes);
    batch.origins = {{options_.name}};
    sink_.apply(std::move(batch));
  }

  void note_refusal(const std::string& why, std::size_t bytes) {
    ++counters_.refused_pushes;
    counters_.bytes += bytes;
    silent_since_ = scheduler_->now();
    if (std::exchange(refusal_, why) != why)
      say(true, "refused a push of istiod at " + counters_.server + ": " + why +
                    "; the last good names, if any, stay in use");
  }

  // istiod ends each stream after half an hour or so.  That is worth a line only if the next one
  // fails.
  void end_stream(const std::string& why) {
    const bool was_connected = std::exchange(counters_.connected, false);
    stream_.reset();
    const bool was_good =
        was_connected && (had_push_ || scheduler_->now() - began_at_ >= kGoodStream);
    if (!was_good) return fail_to_connect(why);
    backoff_.reset();
    connect_in(backoff_.next(kLastRetry));
  }

  // --- the stream's thread ---

  void on_connected() override {
    mailbox_.post([this] { note_connected(); });
  }

  std::optional<std::string> on_push(const Push& push, MessageReader& reader) override {
    return std::visit([&](auto& held) { return take(held, push, reader); }, held_);
  }

  void on_unreadable(const std::string& why, std::size_t bytes) override {
    deliver([this, why, bytes] { note_refusal(why, bytes); });
  }

  void on_end(const std::string& why) override {
    mailbox_.post([this, why] { end_stream(why); });
  }

  // The good resources of a push are taken, whatever the others are like.
  std::optional<std::string> take(auto& held, const Push& push, MessageReader& reader) {
    auto difference = held.take(push, reader);
    if (!difference) {
      on_unreadable(difference.error().message, push.bytes);
      return std::move(difference.error().message);
    }
    std::string refusal = std::move(difference->refusal);
    TakenPush taken{*std::move(difference), push.version, push.bytes, held.size(), held.refused()};
    deliver([this, taken = std::move(taken)]() mutable { take_over(std::move(taken)); });
    if (refusal.empty()) return std::nullopt;
    on_unreadable(refusal, 0);
    return refusal;
  }

  // Returns when the control thread has done it, or waits no longer for the stream.
  void deliver(loop::Mailbox::Task task) {
    std::unique_lock lock(mutex_);
    is_under_way_ = true;
    mailbox_.post([this, task = std::move(task)]() mutable {
      task();
      const std::lock_guard done(mutex_);
      is_under_way_ = false;
      changed_.notify_all();
    });
    changed_.wait(lock, [this] { return !is_under_way_ || is_stopped_; });
  }

  const IstiodSourceOptions options_;
  ServerLookup& servers_;
  SourceSink& sink_;
  std::unique_ptr<Scheduler> scheduler_;
  Backoff backoff_;
  std::unique_ptr<Timer> retry_;
  std::unique_ptr<Timer> repetition_;
  std::map<std::string, std::unique_ptr<NamedServer>> named_;  // by the hosts that are names
  std::size_t next_address_ = 0;
  bool lacks_address_ = false;  // the last try
  Milliseconds began_at_{0};    // the stream
  bool had_push_ = false;       // of the stream
  Milliseconds silent_since_{0};
  bool is_complete_ = false;
  std::string trouble_;  // with the connection
  std::string refusal_;  // of the last push
  std::vector<Finding> findings_;
  std::uint64_t changes_ = 0;
  ControlPlaneStatus counters_;
  HeldByApi held_;  // the stream's thread while there is a stream
  loop::Mailbox mailbox_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_under_way_ = false;  // guarded by mutex_
  bool is_stopped_ = false;    // guarded by mutex_
  std::unique_ptr<AdsStream> stream_;
};

}  // namespace

Result<void> check_access_files(const IstiodSourceOptions& options) {
  const auto access = read_access(options);
  if (!access) return std::unexpected(access.error());
  return {};
}

std::unique_ptr<Source> make_istiod_source(uv_loop_s* loop, IstiodSourceOptions options,
                                           ServerLookup& servers, SourceSink& sink) {
  return std::make_unique<IstiodSource>(loop, std::move(options), servers, sink);
}

}  // namespace meshdns::registry
