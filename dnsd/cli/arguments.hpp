// SPDX-License-Identifier: Apache-2.0
// Parses the command line of meshdnsd (docs/man/meshdnsd.8).
#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/config/load.hpp"
#include "registry/base/ip_address.hpp"
#include "registry/base/result.hpp"
#include "registry/base/socket_address.hpp"

namespace meshdns::dnsd {

inline constexpr std::string_view kDefaultConfigPath = "/etc/meshdns/meshdns.yaml";
inline constexpr int kExitRefused = 1;   // the daemon refuses, or is not ready
inline constexpr int kExitDegraded = 3;  // `status --strict`
inline constexpr int kExitUsage =
    2;  // also `check` that cannot run, and a daemon that is not there
// `run` with a configuration that cannot be used: EX_CONFIG of sysexits.h.  The systemd unit does
// not start it again.
inline constexpr int kExitConfig = 78;

enum class Command : std::uint8_t {
  Run,
  Check,
  Explain,
  Status,
  Reload,
  Cache,
  Flush,
  LogLevel,
  Top,
  Dependencies
};

enum class CheckFormat : std::uint8_t { Text, Json, Sarif };

// `check`: what to compare, and how to say it.
struct CheckArguments {
  bool strict = false;  // warnings are errors
  CheckFormat format = CheckFormat::Text;
  // --diff OLD NEW: two files or directories; empty = no comparison.  Not together with paths.
  std::vector<std::string> diff;
  std::vector<std::string> clients;  // namespaces; empty = all that have objects.  Only with diff
};

// `explain`: the query or connection to explain, and its client.
struct ExplainArguments {
  std::string name;      // as typed; empty only with `connect`
  std::string type;      // upper case mnemonic or TYPEnnn; empty = what fits
  bool offline = false;  // from the files, whether or not a daemon runs
  bool as_json = false;
  std::string from;                // namespace or IP address as typed; empty = the default client
  std::optional<std::int64_t> at;  // --at TIME, in Unix seconds: from the history
  std::optional<SocketAddress> connect;  // --connect IP:PORT
  std::string sni;                       // only with connect; not together with host
  std::string host;
};

// The commands for the running daemon.
struct ControlArguments {
  std::string admin;       // address as typed; empty = the configuration's
  std::string token_file;  // empty = the configuration's
  bool as_json = false;    // `flush` and `log-level` print JSON in any case
  // `status`: only this question, for a probe; not both, and not with as_json.
  bool ready = false;
  bool live = false;
  bool strict = false;  // `status`: a degraded daemon is a failure
  bool once = false;    // `top`: print once, also at a terminal
  std::string name;     // `flush`: one of both is given; `cache`: at most one of three
  std::string zone;
  bool largest = false;
  std::string level;  // `log-level`; empty = show it
  int pid = 0;        // `reload`: process to signal if no admin endpoint can be used; 0 = none
};

// `dependencies`: the rows to show or to forget; empty texts = all.
struct DependencyArguments {
  std::string ns;                             // --namespace, of the client
  std::string workload;                       // of the client
  std::string host;                           // as typed; it and all names below it
  std::optional<std::chrono::seconds> since;  // --since DURATION: asked for in that time
  bool hidden = false;
  bool dot = false;  // at most one of these, and of ControlArguments::as_json
  bool mermaid = false;
  std::vector<std::string> from;  // files with pages, instead of the running daemon
  bool forget = false;            // with one of the first three texts at least, or `all`
  bool all = false;
};

struct Arguments {
  Command command = Command::Run;
  // Without a name only for `check` with paths and for the running daemon: the default
  // configuration.
  ConfigFiles config;
  std::vector<std::string> paths;  // `check`
  CheckArguments check;
  ExplainArguments explain;
  ControlArguments control;
  DependencyArguments dependencies;

  // The command asks the running daemon (run_control()).
  bool is_control() const { return command >= Command::Status; }
};

// Fills `arguments` from main's argv and returns nullopt; or prints and returns the exit status: 0
// after --help or --version (to `out`), kExitUsage after a mistake (to `err`).
// Without --config, `default_config` is taken if that file exists.  With --istio-vm it need not.
std::optional<int> parse_arguments(std::span<const char* const> argv, Arguments& arguments,
                                   std::ostream& out, std::ostream& err,
                                   std::string_view default_config = kDefaultConfigPath);

// A moment before `now` (Unix seconds): "2026-11-28T14:05:00Z", with a zone of its own or that of
// the machine; "14:05" or "14:05:30", today or yesterday; "-2h".
Result<std::int64_t> parse_moment(std::string_view text, std::int64_t now);

// "meshdnsd 0.1.0 (GCC 12.2.0, Linux x86_64)".
std::string version_text();

}  // namespace meshdns::dnsd
