// SPDX-License-Identifier: Apache-2.0
//
// The daemon is looked for at `--admin`, or at the address of the configuration.  A reload must
// also work when the configuration on disk cannot be read, or names another address than the one in
// use: then the address of the package is asked.
#include "dnsd/cli/commands.hpp"

#include <rapidjson/document.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dnsd/admin/admin_token.hpp"
#include "dnsd/cli/admin_client.hpp"
#include "dnsd/cli/status_text.hpp"
#include "dnsd/config/load.hpp"
#include "registry/base/percent_encoding.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::dnsd {
namespace {

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
