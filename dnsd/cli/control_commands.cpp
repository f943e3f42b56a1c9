// SPDX-License-Identifier: Apache-2.0
//
// The daemon is looked for at `--admin`, or at the addresses of the configuration.  A reload must
// also work when the configuration on disk cannot be read, or names other addresses than those in
// use: then the address of the package is asked.
#include <rapidjson/document.h>
#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <expected>
#include <initializer_list>
#include <iomanip>
#include <ostream>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "dnsd/admin/admin_token.hpp"
#include "dnsd/answer/json_members.hpp"
#include "dnsd/cli/admin_client.hpp"
#include "dnsd/cli/commands.hpp"
#include "dnsd/cli/dependency_report.hpp"
#include "dnsd/cli/json_page.hpp"
#include "dnsd/cli/printed_lines.hpp"
#include "dnsd/config/load.hpp"
#include "dnsd/log/journal.hpp"
#include "registry/base/counted.hpp"
#include "registry/base/finding.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::dnsd {

std::string indented_json(const std::string& json) {
  rapidjson::Document document;
  if (document.Parse(json.data(), json.size()).HasParseError()) return printable_lines(json);
  rapidjson::StringBuffer buffer;
  rapidjson::PrettyWriter<rapidjson::StringBuffer> writer(buffer);
  writer.SetIndent(' ', 2);
  document.Accept(writer);
  return ascii_json({buffer.GetString(), buffer.GetSize()}) + "\n";
}

namespace {

// Puts the objects of a list below a heading, unless the list is empty.
template <typename Show>
void put_objects(std::ostream& out, const Value& list, std::string_view heading, Show show) {
  if (elements(list).empty()) return;
  out << heading << '\n';
  for (const Value& element : elements(list)) {
    if (!element.IsObject()) continue;
    show(element);
    out << '\n';
  }
}

std::string client_text(const Value& entry) {
  const std::string client = name_in(entry, "client");
  return name_in(entry, "address") + (client.empty() ? "" : "  " + client);
}

// The page /top as a table for a terminal: a list for each member that is not empty, numbers first,
// since names have any length.  Text that is not the expected JSON gives no lines.
std::string top_text(const std::string& page) {
  const Document top = parsed(page);
  if (!top.IsObject()) return {};
  std::ostringstream out;
  out << std::fixed << std::setprecision(1);
  const auto put_rate = [&](const Value& entry) {
    const double all = number_in(top, "queries");
    const double percent = all > 0 ? 100 * number_in(entry, "queries") / all : 0;
    out << std::setw(10) << number_in(entry, "perSecond") << std::setw(7) << percent << " %  ";
  };
  const auto put_times = [&](const Value& entry, std::initializer_list<const char*> keys) {
    for (const char* key : keys) out << std::setw(10) << number_in(entry, key);
  };
  out << number_in(top, "perSecond") << " queries per second in the last "
      << static_cast<std::uint64_t>(number_in(top, "seconds")) << " s, " << count_in(top, "refused")
      << " refused or limited\n";
  const auto put_list = [&](const char* key, const std::string& heading, const auto& show) {
    put_objects(out, member(top, key), "\n" + heading, show);
  };
  const auto put_rates = [&](const char* key, const char* what, const auto& text_of) {
    put_list(key, std::string(" queries/s  share  ") + what, [&](const Value& entry) {
      put_rate(entry);
      out << text_of(entry);
    });
  };
  put_rates("names", "name", [](const Value& entry) { return name_in(entry, "name"); });
  put_rates("clients", "client", client_text);
  put_rates("namespaces", "namespace",
            [](const Value& entry) { return name_in(entry, "namespace"); });
  put_rates("refusedClients", "refused or limited client", client_text);
  put_list("forwarded", "   mean ms   longest   queries  slow forwarded name",
           [&](const Value& entry) {
             put_times(entry, {"meanMs", "longestMs"});
             out << std::setw(10) << count_in(entry, "queries") << "  " << name_in(entry, "name");
           });
  put_list("failing", "     times  rcode     name without an answer", [&](const Value& entry) {
    out << std::setw(10) << count_in(entry, "times") << "  " << std::left << std::setw(8)
        << name_in(entry, "rcode") << std::right << "  " << name_in(entry, "name");
  });
  put_list("registryOnly", "     times  REGISTRY_ONLY: name that no visible object has",
           [&](const Value& entry) {
             out << std::setw(10) << count_in(entry, "times") << "  " << name_in(entry, "name")
                 << ", " << name_in(entry, "action");
           });
  put_list("upstreams", " median ms      90 %      99 %   answers  upstream server",
           [&](const Value& entry) {
             put_times(entry, {"medianMs", "p90Ms", "p99Ms"});
             out << std::setw(10) << count_in(entry, "answers") << "  " << name_in(entry, "server")
                 << ", " << name_in(entry, "health");
           });
  return out.str();
}

// Bodies of /readyz, /sources, /upstreams and /cache.
struct StatusPages {
  std::string readiness;
  std::string sources;
  std::string upstreams;
  std::string cache;
};

// "ready", or what is lost and below it the reasons.
void put_readiness(std::ostream& out, const Document& readiness) {
  if (!readiness.IsObject()) return;
  const bool is_degraded = !elements(member(readiness, "degraded")).empty();
  out << (!is_set(readiness, "ready") ? "not ready" : is_degraded ? "degraded" : "ready");
  const char* separator = ": ";
  for (const Value& effect : elements(member(readiness, "effects")))
    out << std::exchange(separator, "; ") << shown(effect);
  out << '\n';
  for (const Value& reason : elements(member(readiness, "reasons")))
    if (reason.IsString()) out << "  " << shown(reason) << '\n';
}

void put_cache(std::ostream& out, const Document& cache) {
  if (!cache.IsObject()) return;
  std::uint64_t entries = 0;
  std::uint64_t hits = 0;
  for (const char* kind : {"positive", "negative", "failure"}) {
    entries += count_in(member(cache, kind), "entries");
    hits += count_in(member(cache, kind), "hits");
  }
  out << "cache\n  " << counted(entries, "entry") << ", " << counted(hits, "hit") << ", "
      << counted(count_in(cache, "misses"), "miss") << '\n';
}

// /cache without arguments.
std::string cache_text(const std::string& page) {
  const Document cache = parsed(page);
  if (!cache.IsObject()) return {};
  if (count_in(cache, "capacityBytes") == 0) return "the cache is off (cache.size is 0)\n";
  std::ostringstream out;
  std::uint64_t bytes = 0;
  for (const char* kind : {"positive", "negative", "failure"}) {
    const Value& of_kind = member(cache, kind);
    bytes += count_in(of_kind, "bytes");
    out << kind << ": " << counted(count_in(of_kind, "entries"), "entry") << ", "
        << counted(count_in(of_kind, "bytes"), "byte") << ", "
        << counted(count_in(of_kind, "hits"), "hit") << ", "
        << counted(count_in(of_kind, "evictions"), "eviction") << '\n';
  }
  out << counted(count_in(cache, "misses"), "miss") << ", "
      << counted(count_in(cache, "staleHits"), "stale hit") << "; " << bytes << " of "
      << counted(count_in(cache, "capacityBytes"), "byte") << " used\n";
  return out.str();
}

// /cache with arguments: a line for each entry, and below it its records.
std::string cache_entries_text(const std::string& page) {
  const Document list = parsed(page);
  if (!list.IsObject()) return {};
  if (member(list, "enabled").IsFalse()) return "the cache is off (cache.size is 0)\n";
  std::ostringstream out;
  const auto entries = elements(member(list, "entries"));
  if (entries.empty())
    return "the cache has no such entry; `meshdnsd explain NAME` shows what answers a name\n";
  for (const Value& entry : entries) {
    out << name_in(entry, "name") << ' ' << name_in(entry, "type")
        << (is_set(entry, "dnssecOk") ? " DO" : "")
        << (is_set(entry, "checkingDisabled") ? " CD" : "") << ": "
        << shown(member(entry, "cached")) << ", " << counted(count_in(entry, "bytes"), "byte")
        << '\n';
    for (const Value& record : elements(member(entry, "records")))
      out << "  " << shown(record) << '\n';
  }
  if (!is_set(list, "complete"))
    out << "these are " << entries.size() << " of " << counted(count_in(list, "found"), "entry")
        << '\n';
  return out.str();
}

// A few lines per page.  A page that is not the expected JSON is left out.
std::string status_text(const StatusPages& pages) {
  std::ostringstream out;
  const auto put_error = [&](const Value& object, const char* title) {
    const std::string error = shown(member(object, "lastError"));
    if (!error.empty()) out << title << error;
  };
  put_readiness(out, parsed(pages.readiness));
  put_objects(out, parsed(pages.sources), "sources", [&](const Value& source) {
    out << "  " << shown(member(source, "name")) << ": "
        << (is_set(source, "complete") ? "read" : "not read yet") << ", "
        << counted(count_in(source, "changes"), "change");
    put_error(source, ", ");
  });
  put_objects(out, parsed(pages.upstreams), "upstream servers", [&](const Value& server) {
    out << "  " << shown(member(server, "server")) << ": " << shown(member(server, "health"))
        << std::fixed << std::setprecision(1);
    if (member(server, "medianMs").IsNumber())
      out << ", median " << number_in(server, "medianMs") << " ms, p99 "
          << number_in(server, "p99Ms") << " ms";
    out << ", " << counted(count_in(server, "queries"), "query") << ", "
        << counted(count_in(server, "timeouts"), "timeout");
    put_error(server, ", last error: ");
    if (member(server, "lastErrorSeconds").IsNumber())
      out << " (" << count_in(server, "lastErrorSeconds") << " s ago)";
  });
  put_cache(out, parsed(pages.cache));
  return out.str();
}

constexpr std::string_view kPackagedAdminAddress = "unix:/run/meshdns/admin.sock";
// Less than TimeoutStartSec= of the unit, which limits ExecReload=, too.
constexpr std::chrono::seconds kReloadLimit{20};
constexpr std::chrono::milliseconds kReloadPoll{20};
// Less than timeoutSeconds of the manifests' probes, for all places together.
constexpr std::chrono::milliseconds kProbeLimit{3'000};
constexpr std::size_t kMaxShownLine = 2'000;
constexpr std::chrono::seconds kTopInterval{1};
constexpr std::string_view kClearTerminal = "\x1b[H\x1b[2J";

void put_line(std::ostream& out, std::string_view line) {
  out << registry::printable(line, kMaxShownLine) << '\n';
}

// Addresses at which the daemon may be, and the token for them.
struct Places {
  std::vector<AdminAddress> addresses;
  std::string token;
};

Result<Places> places_of(const Arguments& arguments) {
  const ControlArguments& control = arguments.control;
  Places places;
  if (!control.admin.empty()) {
    auto given = parse_admin_address(control.admin);
    if (!given) return fail("--admin: " + given.error().message);
    places.addresses.push_back(*std::move(given));
    // A probe runs every few seconds, and reads nothing that it does not need.
    if (control.ready || control.live) return places;
  }
  Config config;
  if (!arguments.config.name().empty())
    if (auto loaded = load_config(arguments.config)) config = std::move(loaded->config);
  if (control.admin.empty()) {
    const AdminAddress packaged = *parse_admin_address(kPackagedAdminAddress);
    const bool is_packaged =
        arguments.config.path.empty() || arguments.config.path == kDefaultConfigPath;
    places.addresses = in_order_of_use(config.admin.listen);
    if (is_packaged && std::ranges::find(places.addresses, packaged) == places.addresses.end())
      places.addresses.push_back(packaged);
  }
  const std::string& token_file =
      control.token_file.empty() ? config.admin.token_file : control.token_file;
  if (token_file.empty()) return places;
  auto token = read_admin_token(token_file);
  // The Unix socket needs none; without a readable one, the daemon says what is missing.
  if (!token && !control.token_file.empty()) return std::unexpected(token.error());
  places.token = std::move(token).value_or("");
  return places;
}

// The daemon, and what it has said to the first question.
struct Found {
  AdminClient daemon;
  AdminReply reply;
};

// Asks for the page at each place, until a daemon answers.
std::expected<Found, AdminFailure> find_page(const Arguments& arguments, const char* page) {
  const auto places = places_of(arguments);
  if (!places) return std::unexpected(AdminFailure{places.error()});
  std::string problems;
  bool are_absent = !places->addresses.empty();
  const bool is_probe = arguments.control.ready || arguments.control.live;
  const auto count = static_cast<int>(places->addresses.size());
  for (const auto& address : places->addresses) {
    AdminClient client(address, places->token,
                       is_probe ? kProbeLimit / count : AdminClient::kReplyLimit);
    auto reply = client.get(page);
    if (reply) return Found{std::move(client), *std::move(reply)};
    problems += (problems.empty() ? "" : "; ") + reply.error().message;
    are_absent = are_absent && reply.error().is_absent;
  }
  if (problems.empty()) problems = "admin.listen is off; give --admin ADDRESS";
  return std::unexpected(AdminFailure{{"no running daemon answers: " + problems}, are_absent});
}

std::expected<AdminClient, AdminFailure> find_daemon(const Arguments& arguments) {
  auto found = find_page(arguments, "/healthz");
  if (!found) return std::unexpected(std::move(found).error());
  return std::move(found->daemon);
}

int say_unreachable(const Error& error, std::ostream& err) {
  put_line(err, "meshdnsd: " + error.message);
  return kExitUsage;
}

// Returns whether the addresses of the daemon are those of the text, or of a text without errors.
bool has_addresses(const LoadedConfig& loaded) {
  const bool is_wrong = std::ranges::any_of(loaded.findings, [](const registry::Finding& finding) {
    return finding.severity == registry::Severity::Error &&
           finding.field.starts_with("admin.listen");
  });
  return !is_wrong && (loaded.valid() || loaded.lines.contains("admin.listen"));
}

// The lines about a daemon that is not found: what its next start will find wrong, or else what the
// last one has found.  `is_absent`: no process listens at any address that is known.
std::vector<std::string> reasons_for_absence(const ConfigFiles& files, bool is_absent) {
  std::vector<std::string> reasons;
  bool has_address = true;
  if (!files.name().empty()) {
    const auto loaded = load_config(files);
    // The user of the service may read what this user may not.
    if (!loaded && ::access(files.path.c_str(), R_OK) != 0 && errno == EACCES)
      return {"meshdnsd: " + loaded.error().message};
    has_address = loaded && has_addresses(*loaded);
    if (!loaded) reasons.push_back(loaded.error().message);
    if (loaded)
      for (const registry::Finding& finding : loaded->findings)
        if (finding.severity == registry::Severity::Error) reasons.push_back(finding.to_string());
  }
  if (has_address && !is_absent) return {};
  // The journal is that of the service.
  const bool is_of_service = files.name().empty() || files.path == kDefaultConfigPath;
  if (reasons.empty() && is_of_service) reasons = errors_of_last_run();
  for (std::string& reason : reasons)
    reason.insert(0, has_address ? "meshdnsd does not run: "
                                 : "meshdnsd may run at an address that cannot be read: ");
  return reasons;
}

int say_missing(const Arguments& arguments, const AdminFailure& failure, std::ostream& err) {
  if (arguments.control.admin.empty())
    for (const std::string& reason : reasons_for_absence(arguments.config, failure.is_absent))
      put_line(err, reason);
  return say_unreachable(failure, err);
}

int say_refused(const AdminReply& reply, std::ostream& err) {
  put_line(err, "meshdnsd: refused (" + std::to_string(reply.status) + "): " + error_text(reply));
  return kExitRefused;
}

// Asks for a change.  Over TCP, the daemon refuses it without a token: it may have a socket that
// the configuration does not name because of its errors, which are printed.
AdminResult ask_for_change(const AdminClient& daemon, const std::string& target,
                           const Arguments& arguments, std::ostream& err) {
  auto reply = daemon.post(target);
  if (reply && reply->status == 403 && arguments.control.admin.empty())
    for (const std::string& reason : reasons_for_absence(arguments.config, false))
      put_line(err, reason);
  return reply;
}

// Sends one request and prints the reply.
int print_reply(const AdminResult& reply, std::ostream& out, std::ostream& err) {
  if (!reply) return say_unreachable(reply.error(), err);
  if (reply->status != 200) return say_refused(*reply, err);
  out << indented_json(reply->body);
  return 0;
}

// The reason that comes first in a body of /readyz or /healthz; empty: it says none.
std::string reason_in(const std::string& body) {
  const Document readiness = parsed(body);
  if (!readiness.IsObject()) return body == "ok\n" ? "" : body.substr(0, body.find('\n'));
  const auto reasons = elements(member(readiness, "reasons"));
  return reasons.empty() ? "" : shown(reasons.front());
}

// One line, for a probe: any failure is status 1.
int run_probe(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  const bool asks_ready = arguments.control.ready;
  const auto found = find_page(arguments, asks_ready ? "/readyz" : "/healthz");
  if (!found) {
    put_line(err, "meshdnsd: " + found.error().message);
    return kExitRefused;
  }
  const std::string reason = reason_in(found->reply.body);
  const bool is_well = found->reply.status == 200;
  put_line(is_well ? out : err, std::string(is_well ? "" : "not ") +
                                    (asks_ready ? "ready" : "live") +
                                    (reason.empty() ? "" : ": " + reason));
  return is_well ? 0 : kExitRefused;
}

int run_status(const AdminClient& daemon, const ControlArguments& control, std::ostream& out,
               std::ostream& err) {
  const auto readiness = daemon.get("/readyz");
  if (!readiness) return say_unreachable(readiness.error(), err);
  StatusPages pages;
  pages.readiness = readiness->body;
  for (const auto& [path, page] :
       {std::pair{"/sources", &pages.sources}, std::pair{"/upstreams", &pages.upstreams},
        std::pair{"/cache", &pages.cache}}) {
    auto reply = daemon.get(path);
    if (!reply) return say_unreachable(reply.error(), err);
    if (reply->status == 200) *page = std::move(reply->body);
  }
  if (control.as_json) {
    const auto body = [](const std::string& page) { return page.empty() ? "null" : page; };
    out << indented_json(
        "{\"readiness\":" + body(pages.readiness) + ",\"sources\":" + body(pages.sources) +
        ",\"upstreams\":" + body(pages.upstreams) + ",\"cache\":" + body(pages.cache) + "}");
  } else {
    out << status_text(pages);
  }
  if (readiness->status != 200) return kExitRefused;
  const bool is_degraded = !elements(member(parsed(pages.readiness), "degraded")).empty();
  return control.strict && is_degraded ? kExitDegraded : 0;
}

// `page`: the body of /reload.
int say_verdict(const std::string& page, bool as_json, std::ostream& out, std::ostream& err) {
  const Document verdict = parsed(page);
  const auto not_bound = elements(member(verdict, "notBound"));
  if (as_json) {
    out << indented_json(page);
    return is_set(verdict, "ok") && not_bound.empty() ? 0 : kExitRefused;
  }
  for (const auto lines : {elements(member(verdict, "findings")), not_bound})
    for (const Value& line : lines)
      if (line.IsString()) put_line(err, {line.GetString(), line.GetStringLength()});
  if (!is_set(verdict, "ok")) {
    err << "meshdnsd: the configuration was refused; the previous one stays in use\n";
    return kExitRefused;
  }
  if (!not_bound.empty()) {
    err << "meshdnsd: reloaded, but the addresses above cannot be used yet\n";
    return kExitRefused;
  }
  out << "reloaded\n";
  return 0;
}

// Asks for the reload and waits for its end.
int reload_through(const Arguments& arguments, AdminClient daemon, std::ostream& out,
                   std::ostream& err) {
  const auto asked = ask_for_change(daemon, "/reload", arguments, err);
  if (!asked) return say_unreachable(asked.error(), err);
  if (asked->status != 200) return say_refused(*asked, err);
  const Document number = parsed(asked->body);
  const Value& wanted = member(number, "reload");
  if (!wanted.IsUint64()) return say_refused(*asked, err);
  const auto until = std::chrono::steady_clock::now() + kReloadLimit;
  do {
    std::this_thread::sleep_for(kReloadPoll);
    const auto reply = daemon.get("/reload");
    if (!reply) {  // it may answer at the new configuration's address
      Arguments moved = arguments;
      moved.control.admin.clear();
      if (auto again = find_daemon(moved)) daemon = *std::move(again);
      continue;
    }
    const Document verdict = parsed(reply->body);
    const Value& done = member(verdict, "reloads");
    if (done.IsUint64() && done.GetUint64() >= wanted.GetUint64())
      return say_verdict(reply->body, arguments.control.as_json, out, err);
  } while (std::chrono::steady_clock::now() < until);
  err << "meshdnsd: the daemon has not finished the reload; the log has its result\n";
  return kExitRefused;
}

// As /reload has it; a daemon that only got a signal has not counted it yet.
std::string signal_verdict(bool is_valid, const std::vector<std::string>& findings) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  put_bool(json, "ok", is_valid);
  put(json, "findings", findings);
  put_bool(json, "signalled", is_valid);
  json.EndObject();
  return indented_json({buffer.GetString(), buffer.GetSize()});
}

// For a daemon whose admin endpoint cannot be used, for the reason `why`: the verdict is that of
// the same check.
int reload_by_signal(const Arguments& arguments, const std::string& why, std::ostream& out,
                     std::ostream& err) {
  const auto loaded = load_config(arguments.config);
  std::vector<std::string> findings;
  if (!loaded) findings.push_back(loaded.error().message);
  if (loaded)
    for (const auto& finding : loaded->findings) findings.push_back(finding.to_string());
  const bool is_valid = loaded && loaded->valid();
  if (arguments.control.as_json && !is_valid) {
    out << signal_verdict(false, findings);
    return kExitRefused;
  }
  if (!arguments.control.as_json)
    for (const std::string& finding : findings) put_line(err, finding);
  if (!is_valid) {
    err << "meshdnsd: the configuration has errors; the previous one stays in use\n";
    return kExitRefused;
  }
  if (::kill(arguments.control.pid, SIGHUP) != 0) {
    err << "meshdnsd: cannot signal process " << arguments.control.pid << ": "
        << std::strerror(errno) << '\n';
    return kExitUsage;
  }
  if (arguments.control.as_json) {
    out << signal_verdict(true, findings);
    return 0;
  }
  put_line(out, "sent SIGHUP to process " + std::to_string(arguments.control.pid) +
                    "; the log has the result: " + why);
  return 0;
}

int run_reload(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  auto daemon = find_daemon(arguments);
  if (daemon) {
    // Over TCP without a token, the daemon refuses what a signal may do.
    if (daemon->may_change() || arguments.control.pid == 0)
      return reload_through(arguments, *std::move(daemon), out, err);
  } else if (arguments.control.pid == 0) {
    return say_missing(arguments, daemon.error(), err);
  }
  return reload_by_signal(
      arguments,
      daemon ? "a change over TCP needs the token of admin.token_file" : daemon.error().message,
      out, err);
}

// Entries of each list: as many as fit the terminal.
std::size_t entries_that_fit() {
  constexpr std::size_t kLists = 7;
  constexpr std::size_t kHeading = 2;  // an empty line and the columns
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) return 10;
  const std::size_t share = (size.ws_row - 1U) / kLists;
  return std::clamp<std::size_t>(share > kHeading ? share - kHeading : 0, 1, 10);
}

int run_top(const AdminClient& daemon, const ControlArguments& control, std::ostream& out,
            std::ostream& err) {
  if (control.as_json) return print_reply(daemon.get("/top"), out, err);
  const bool repeats = !control.once && ::isatty(STDOUT_FILENO) == 1;
  for (;;) {
    const std::size_t limit = repeats ? entries_that_fit() : 10;
    const auto reply = daemon.get("/top?limit=" + std::to_string(limit));
    if (!reply) return say_unreachable(reply.error(), err);
    if (reply->status != 200) return say_refused(*reply, err);
    const std::string text = top_text(reply->body);
    if (!repeats) {
      out << text;
      return 0;
    }
    out << kClearTerminal << text << std::flush;
    std::this_thread::sleep_for(kTopInterval);
  }
}

int run_cache(const AdminClient& daemon, const ControlArguments& control, std::ostream& out,
              std::ostream& err) {
  std::string question;
  if (control.largest) question = "?top=yes";
  if (!control.name.empty()) question = "?name=" + percent_encoded(control.name);
  if (!control.zone.empty()) question = "?zone=" + percent_encoded(control.zone);
  const auto reply = daemon.get("/cache" + question);
  if (control.as_json || !reply || reply->status != 200) return print_reply(reply, out, err);
  out << (question.empty() ? cache_text(reply->body) : cache_entries_text(reply->body));
  return 0;
}

// REQUIRES: not as_json.
void print_dependencies(const DependencyReport& report, const DependencyArguments& options,
                        std::ostream& out) {
  if (options.dot) return report.print_dot(out);
  if (options.mermaid) return report.print_mermaid(out);
  report.print_text(out, std::time(nullptr));
}

int merge_dependencies(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  DependencyReport report;
  for (const std::string& path : arguments.dependencies.from)
    if (const auto added = report.add_file(path); !added)
      return say_unreachable(added.error(), err);
  report.keep(arguments.dependencies, std::time(nullptr));
  if (arguments.control.as_json)
    out << indented_json(report.to_json());
  else
    print_dependencies(report, arguments.dependencies, out);
  return 0;
}

int run_dependencies(const AdminClient& daemon, const Arguments& arguments, std::ostream& out,
                     std::ostream& err) {
  const DependencyArguments& options = arguments.dependencies;
  std::string question;
  const auto add = [&](std::string_view key, std::string_view value) {
    if (value.empty()) return;
    question += question.empty() ? '?' : '&';
    question += std::string(key) + "=" + percent_encoded(value);
  };
  add("namespace", options.ns);
  add("workload", options.workload);
  add("host", options.host);
  add("all", options.all ? "yes" : "");
  if (options.forget) return print_reply(daemon.post("/dependencies/forget" + question), out, err);
  add("hidden", options.hidden ? "yes" : "");
  if (options.since) add("since", std::to_string(std::time(nullptr) - options.since->count()));
  const auto reply = daemon.get("/dependencies" + question);
  if (arguments.control.as_json || !reply || reply->status != 200)
    return print_reply(reply, out, err);
  DependencyReport report;
  if (const auto added = report.add(parsed(reply->body)); !added) {
    put_line(err, "meshdnsd: the page /dependencies " + added.error().message);
    return kExitRefused;
  }
  print_dependencies(report, options, out);
  return 0;
}

}  // namespace

int run_control(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  if (arguments.command == Command::Reload) return run_reload(arguments, out, err);
  if (!arguments.dependencies.from.empty()) return merge_dependencies(arguments, out, err);
  if (arguments.control.ready || arguments.control.live) return run_probe(arguments, out, err);
  const auto daemon = find_daemon(arguments);
  if (!daemon) return say_missing(arguments, daemon.error(), err);
  const ControlArguments& control = arguments.control;
  if (arguments.command == Command::Status) return run_status(*daemon, control, out, err);
  if (arguments.command == Command::Top) return run_top(*daemon, control, out, err);
  if (arguments.command == Command::Cache) return run_cache(*daemon, control, out, err);
  if (arguments.command == Command::Dependencies)
    return run_dependencies(*daemon, arguments, out, err);
  if (arguments.command == Command::Flush)
    return print_reply(
        ask_for_change(
            *daemon,
            "/cache/flush?" + (control.zone.empty() ? "name=" + percent_encoded(control.name)
                                                    : "zone=" + percent_encoded(control.zone)),
            arguments, err),
        out, err);
  if (control.level.empty()) return print_reply(daemon->get("/log/level"), out, err);
  return print_reply(
      ask_for_change(*daemon, "/log/level?level=" + percent_encoded(control.level), arguments, err),
      out, err);
}

}  // namespace meshdns::dnsd
