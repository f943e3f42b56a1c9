// SPDX-License-Identifier: Apache-2.0
//
// The daemon is looked for at `--admin`, or at the address of the configuration.  A reload must
// also work when the configuration on disk cannot be read, or names another address than the one in
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
#include <iomanip>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "dnsd/admin/admin_token.hpp"
#include "dnsd/cli/admin_client.hpp"
#include "dnsd/cli/commands.hpp"
#include "dnsd/config/load.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::dnsd {
namespace {

// Bodies of /readyz, /sources, /upstreams and /cache.
struct StatusPages {
  std::string readiness;
  std::string sources;
  std::string upstreams;
  std::string cache;
};

constexpr std::size_t kMaxShownText = 1'000;

// The text of a member of a page's JSON, safe for a terminal and cut at `limit` bytes.  Empty: the
// object has no such text.
std::string text_member(const rapidjson::Value& object, const char* key,
                        std::size_t limit = kMaxShownText) {
  const auto found = object.FindMember(key);
  if (found == object.MemberEnd() || !found->value.IsString()) return {};
  return registry::printable({found->value.GetString(), found->value.GetStringLength()}, limit);
}

using rapidjson::Value;

constexpr std::size_t kLongestText = 300;

std::string top_string(const Value& object, const char* key) {
  return text_member(object, key, kLongestText);
}

double top_number(const Value& object, const char* key) {
  const auto found = object.FindMember(key);
  return found != object.MemberEnd() && found->value.IsNumber() ? found->value.GetDouble() : 0;
}

// The share of all queries in percent.
double share_of(const Value& entry, const Value& page) {
  const double all = top_number(page, "queries");
  return all > 0 ? 100 * top_number(entry, "queries") / all : 0;
}

// Puts the list `key` of `page`, unless it is empty: numbers first, since names have any length.
template <typename Show>
void put_top_list(std::ostream& out, const Value& page, const char* key, const char* heading,
                  Show show) {
  const auto found = page.FindMember(key);
  if (found == page.MemberEnd() || !found->value.IsArray() || found->value.Empty()) return;
  out << '\n' << heading << '\n';
  for (const auto& entry : found->value.GetArray()) {
    if (!entry.IsObject()) continue;
    show(entry);
    out << '\n';
  }
}

std::string client_text(const Value& entry) {
  const std::string client = top_string(entry, "client");
  return top_string(entry, "address") + (client.empty() ? "" : "  " + client);
}

// The pages of the admin endpoint as text for a terminal.
// The page /top as a table for a terminal.
// A list for each member that is not empty.  Text that is not the expected JSON gives no lines.
std::string top_text(const std::string& page) {
  rapidjson::Document top;
  top.Parse(page.data(), page.size());
  if (top.HasParseError() || !top.IsObject()) return {};
  std::ostringstream out;
  out << std::fixed << std::setprecision(1);
  const auto put_rate = [&](const Value& entry) {
    out << std::setw(10) << top_number(entry, "perSecond") << std::setw(7) << share_of(entry, top)
        << " %  ";
  };
  const auto put_ms = [&](const Value& entry, const char* key) {
    out << std::setw(10) << top_number(entry, key);
  };
  out << top_number(top, "perSecond") << " queries per second in the last "
      << static_cast<std::uint64_t>(top_number(top, "seconds")) << " s, "
      << static_cast<std::uint64_t>(top_number(top, "refused")) << " refused or limited\n";
  put_top_list(out, top, "names", " queries/s  share  name", [&](const Value& entry) {
    put_rate(entry);
    out << top_string(entry, "name");
  });
  put_top_list(out, top, "clients", " queries/s  share  client", [&](const Value& entry) {
    put_rate(entry);
    out << client_text(entry);
  });
  put_top_list(out, top, "namespaces", " queries/s  share  namespace", [&](const Value& entry) {
    put_rate(entry);
    out << top_string(entry, "namespace");
  });
  put_top_list(out, top, "refusedClients", " queries/s  share  refused or limited client",
               [&](const Value& entry) {
                 put_rate(entry);
                 out << client_text(entry);
               });
  put_top_list(out, top, "forwarded", "   mean ms   longest   queries  slow forwarded name",
               [&](const Value& entry) {
                 put_ms(entry, "meanMs");
                 put_ms(entry, "longestMs");
                 out << std::setw(10) << static_cast<std::uint64_t>(top_number(entry, "queries"))
                     << "  " << top_string(entry, "name");
               });
  put_top_list(out, top, "upstreams", " median ms      90 %      99 %   answers  upstream server",
               [&](const Value& entry) {
                 put_ms(entry, "medianMs");
                 put_ms(entry, "p90Ms");
                 put_ms(entry, "p99Ms");
                 out << std::setw(10) << static_cast<std::uint64_t>(top_number(entry, "answers"))
                     << "  " << top_string(entry, "server") << ", " << top_string(entry, "health");
               });
  return out.str();
}

std::uint64_t number_member(const rapidjson::Value& object, const char* key) {
  const auto found = object.FindMember(key);
  return found != object.MemberEnd() && found->value.IsUint64() ? found->value.GetUint64() : 0;
}

bool is_set(const rapidjson::Value& object, const char* key) {
  const auto found = object.FindMember(key);
  return found != object.MemberEnd() && found->value.IsBool() && found->value.GetBool();
}

// Calls `show` for each object of the array, after `title`.
template <typename Show>
void put_objects(std::ostream& out, const std::string& json, const char* title, Show show) {
  rapidjson::Document document;
  document.Parse(json.data(), json.size());
  if (document.HasParseError() || !document.IsArray() || document.Empty()) return;
  out << title << '\n';
  for (const auto& element : document.GetArray())
    if (element.IsObject()) show(element);
}

void put_readiness(std::ostream& out, const std::string& json) {
  rapidjson::Document document;
  document.Parse(json.data(), json.size());
  if (document.HasParseError() || !document.IsObject()) return;
  out << (is_set(document, "ready") ? "ready" : "not ready") << '\n';
  const auto reasons = document.FindMember("reasons");
  if (reasons == document.MemberEnd() || !reasons->value.IsArray()) return;
  for (const auto& reason : reasons->value.GetArray())
    if (reason.IsString())
      out << "  "
          << registry::printable({reason.GetString(), reason.GetStringLength()}, kMaxShownText)
          << '\n';
}

void put_source(std::ostream& out, const rapidjson::Value& source) {
  out << "  " << text_member(source, "name") << ": "
      << (is_set(source, "complete") ? "read" : "not read yet") << ", "
      << number_member(source, "changes") << " changes";
  if (const auto error = text_member(source, "lastError"); !error.empty()) out << ", " << error;
  out << '\n';
}

void put_server(std::ostream& out, const rapidjson::Value& server) {
  out << "  " << text_member(server, "server") << ": " << text_member(server, "health") << ", "
      << std::fixed << std::setprecision(1)
      << static_cast<double>(number_member(server, "rttMicroseconds")) / 1000 << " ms, "
      << number_member(server, "queries") << " queries, " << number_member(server, "timeouts")
      << " timeouts";
  if (const auto error = text_member(server, "lastError"); !error.empty())
    out << ", last error: " << error;
  out << '\n';
}

void put_cache(std::ostream& out, const std::string& json) {
  rapidjson::Document document;
  document.Parse(json.data(), json.size());
  if (document.HasParseError() || !document.IsObject()) return;
  std::uint64_t entries = 0;
  std::uint64_t hits = 0;
  for (const char* kind : {"positive", "negative", "failure"}) {
    const auto found = document.FindMember(kind);
    if (found == document.MemberEnd() || !found->value.IsObject()) continue;
    entries += number_member(found->value, "entries");
    hits += number_member(found->value, "hits");
  }
  out << "cache\n  " << entries << " entries, " << hits << " hits, "
      << number_member(document, "misses") << " misses\n";
}

// A few lines per page.  A page that is not the expected JSON is left out.
std::string status_text(const StatusPages& pages) {
  std::ostringstream out;
  put_readiness(out, pages.readiness);
  put_objects(out, pages.sources, "sources", [&](const auto& source) { put_source(out, source); });
  put_objects(out, pages.upstreams, "upstream servers",
              [&](const auto& server) { put_server(out, server); });
  put_cache(out, pages.cache);
  return out.str();
}

// JSON with line breaks and indentation; text that is no JSON as it is.
std::string indented_json(const std::string& json) {
  rapidjson::Document document;
  document.Parse(json.data(), json.size());
  if (document.HasParseError()) return json;
  rapidjson::StringBuffer buffer;
  rapidjson::PrettyWriter<rapidjson::StringBuffer> writer(buffer);
  writer.SetIndent(' ', 2);
  document.Accept(writer);
  return std::string(buffer.GetString(), buffer.GetSize()) + "\n";
}

constexpr std::string_view kPackagedAdminAddress = "unix:/run/meshdns/admin.sock";
// Less than TimeoutStartSec= of the unit, which limits ExecReload=, too.
constexpr std::chrono::seconds kReloadLimit{20};
constexpr std::chrono::milliseconds kReloadPoll{20};
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

void add_place(Places& places, const AdminAddress& address) {
  if (std::ranges::find(places.addresses, address) == places.addresses.end())
    places.addresses.push_back(address);
}

Result<Places> places_of(const Arguments& arguments) {
  Places places;
  std::string token_file = arguments.control.token_file;
  if (!arguments.control.admin.empty()) {
    auto given = parse_admin_address(arguments.control.admin);
    if (!given) return fail("--admin: " + given.error().message);
    add_place(places, *given);
  }
  const bool is_packaged =
      arguments.config.path.empty() || arguments.config.path == kDefaultConfigPath;
  Config config;
  if (!arguments.config.name().empty())
    if (auto loaded = load_config(arguments.config)) config = std::move(loaded->config);
  if (token_file.empty()) token_file = config.admin.token_file;
  if (arguments.control.admin.empty()) {
    if (config.admin.listen) add_place(places, *config.admin.listen);
    if (is_packaged) add_place(places, *parse_admin_address(kPackagedAdminAddress));
  }
  if (!token_file.empty()) {
    auto token = read_admin_token(token_file);
    // The Unix socket needs none; without a readable one, the daemon says what is missing.
    if (token)
      places.token = *std::move(token);
    else if (!arguments.control.token_file.empty())
      return std::unexpected(token.error());
  }
  return places;
}

// Finds the daemon: the first place that answers.
Result<AdminClient> find_daemon(const Arguments& arguments) {
  const auto places = places_of(arguments);
  if (!places) return std::unexpected(places.error());
  std::string problems;
  for (const auto& address : places->addresses) {
    AdminClient client(address, places->token);
    const auto reply = client.get("/healthz");
    if (reply) return client;
    problems += (problems.empty() ? "" : "; ") + reply.error().message;
  }
  if (problems.empty()) problems = "admin.listen is off; give --admin ADDRESS";
  return fail("no running daemon answers: " + problems);
}

// The text of {"error": ...}, or the body.
std::string error_text(const AdminReply& reply) {
  rapidjson::Document document;
  document.Parse(reply.body.data(), reply.body.size());
  if (!document.HasParseError() && document.IsObject())
    if (const auto error = document.FindMember("error");
        error != document.MemberEnd() && error->value.IsString())
      return {error->value.GetString(), error->value.GetStringLength()};
  return reply.body;
}

int say_unreachable(const Error& error, std::ostream& err) {
  put_line(err, "meshdnsd: " + error.message);
  return kExitUsage;
}

int say_refused(const AdminReply& reply, std::ostream& err) {
  std::string text = error_text(reply);
  while (text.ends_with('\n')) text.pop_back();
  put_line(err, "meshdnsd: refused (" + std::to_string(reply.status) + "): " + text);
  return kExitRefused;
}

// Sends one request and prints the reply.
int print_reply(const Result<AdminReply>& reply, std::ostream& out, std::ostream& err) {
  if (!reply) return say_unreachable(reply.error(), err);
  if (reply->status != 200) return say_refused(*reply, err);
  out << indented_json(reply->body);
  return 0;
}

int run_status(const AdminClient& daemon, bool as_json, std::ostream& out, std::ostream& err) {
  StatusPages pages;
  long status = 0;
  const auto readiness = daemon.get("/readyz");
  if (!readiness) return say_unreachable(readiness.error(), err);
  status = readiness->status;
  pages.readiness = readiness->body;
  for (const auto& [path, page] :
       {std::pair{"/sources", &pages.sources}, std::pair{"/upstreams", &pages.upstreams},
        std::pair{"/cache", &pages.cache}}) {
    auto reply = daemon.get(path);
    if (!reply) return say_unreachable(reply.error(), err);
    if (reply->status == 200) *page = std::move(reply->body);
  }
  if (as_json) {
    const auto member = [](const std::string& body) { return body.empty() ? "null" : body; };
    out << indented_json(
        "{\"readiness\":" + member(pages.readiness) + ",\"sources\":" + member(pages.sources) +
        ",\"upstreams\":" + member(pages.upstreams) + ",\"cache\":" + member(pages.cache) + "}");
  } else {
    out << status_text(pages);
  }
  return status == 200 ? 0 : kExitRefused;
}

void put_list(std::ostream& out, const rapidjson::Document& document, const char* key) {
  const auto found = document.FindMember(key);
  if (found == document.MemberEnd() || !found->value.IsArray()) return;
  for (const auto& line : found->value.GetArray())
    if (line.IsString()) put_line(out, {line.GetString(), line.GetStringLength()});
}

bool is_empty_list(const rapidjson::Document& document, const char* key) {
  const auto found = document.FindMember(key);
  return found == document.MemberEnd() || !found->value.IsArray() || found->value.Empty();
}

// Number `key` of the reply; nullopt if it is none of the endpoint's.
std::optional<std::uint64_t> number_in(const std::string& json, const char* key,
                                       rapidjson::Document& document) {
  document.Parse(json.data(), json.size());
  if (document.HasParseError() || !document.IsObject()) return std::nullopt;
  const auto found = document.FindMember(key);
  if (found == document.MemberEnd() || !found->value.IsUint64()) return std::nullopt;
  return found->value.GetUint64();
}

int say_verdict(const rapidjson::Document& verdict, std::ostream& out, std::ostream& err) {
  put_list(err, verdict, "findings");
  put_list(err, verdict, "notBound");
  const auto ok = verdict.FindMember("ok");
  if (ok == verdict.MemberEnd() || !ok->value.IsBool() || !ok->value.GetBool()) {
    err << "meshdnsd: the configuration was refused; the previous one stays in use\n";
    return kExitRefused;
  }
  if (!is_empty_list(verdict, "notBound")) {
    err << "meshdnsd: reloaded, but the addresses above cannot be used yet\n";
    return kExitRefused;
  }
  out << "reloaded\n";
  return 0;
}

// Asks for the reload and waits for its end.
int reload_through(const Arguments& arguments, AdminClient daemon, std::ostream& out,
                   std::ostream& err) {
  const auto asked = daemon.post("/reload");
  if (!asked) return say_unreachable(asked.error(), err);
  if (asked->status != 200) return say_refused(*asked, err);
  rapidjson::Document document;
  const auto wanted = number_in(asked->body, "reload", document);
  if (!wanted) return say_refused(*asked, err);
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
    rapidjson::Document verdict;
    const auto done = number_in(reply->body, "reloads", verdict);
    if (done && *done >= *wanted) return say_verdict(verdict, out, err);
  } while (std::chrono::steady_clock::now() < until);
  err << "meshdnsd: the daemon has not finished the reload; the log has its result\n";
  return kExitRefused;
}

// For a daemon whose admin endpoint is off: the verdict is that of the same check.
int reload_by_signal(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  const auto loaded = reload_config(arguments.config);
  if (!loaded) {
    put_line(err, loaded.error().message);
  } else {
    for (const auto& finding : loaded->findings) put_line(err, finding.to_string());
  }
  if (!loaded || !loaded->valid()) {
    err << "meshdnsd: the configuration has errors; the previous one stays in use\n";
    return kExitRefused;
  }
  if (::kill(arguments.control.pid, SIGHUP) != 0) {
    err << "meshdnsd: cannot signal process " << arguments.control.pid << ": "
        << std::strerror(errno) << '\n';
    return kExitUsage;
  }
  out << "sent SIGHUP to process " << arguments.control.pid
      << "; its admin endpoint does not answer, so that the log has the result\n";
  return 0;
}

int run_reload(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  auto daemon = find_daemon(arguments);
  if (daemon) {
    // Over TCP without a token, the daemon refuses what a signal may do.
    if (daemon->may_change() || arguments.control.pid == 0)
      return reload_through(arguments, *std::move(daemon), out, err);
  } else if (arguments.control.pid == 0) {
    return say_unreachable(daemon.error(), err);
  }
  return reload_by_signal(arguments, out, err);
}

int run_flush(const AdminClient& daemon, const ControlArguments& control, std::ostream& out,
              std::ostream& err) {
  const std::string target = control.zone.empty() ? "name=" + percent_encoded(control.name)
                                                  : "zone=" + percent_encoded(control.zone);
  return print_reply(daemon.post("/cache/flush?" + target), out, err);
}

int run_log_level(const AdminClient& daemon, const std::string& level, std::ostream& out,
                  std::ostream& err) {
  return print_reply(level.empty() ? daemon.get("/log/level")
                                   : daemon.post("/log/level?level=" + percent_encoded(level)),
                     out, err);
}

// Entries of each list: as many as fit the terminal.
std::size_t entries_that_fit() {
  constexpr std::size_t kLists = 6;
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

}  // namespace

int run_control(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  if (arguments.command == Command::Reload) return run_reload(arguments, out, err);
  const auto daemon = find_daemon(arguments);
  if (!daemon) return say_unreachable(daemon.error(), err);
  switch (arguments.command) {
    case Command::Status:
      return run_status(*daemon, arguments.control.as_json, out, err);
    case Command::Flush:
      return run_flush(*daemon, arguments.control, out, err);
    case Command::Top:
      return run_top(*daemon, arguments.control, out, err);
    default:
      return run_log_level(*daemon, arguments.control.level, out, err);
  }
}

}  // namespace meshdns::dnsd
