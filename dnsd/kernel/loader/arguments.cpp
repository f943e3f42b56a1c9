// SPDX-License-Identifier: Apache-2.0
#include "dnsd/kernel/loader/arguments.hpp"

#include <CLI/CLI.hpp>

namespace meshdns::kernel {
namespace {

void add_maps_option(CLI::App& app, Arguments& arguments) {
  app.add_option("--maps", arguments.maps, "folder of the pinned maps, in a BPF file system")
      ->capture_default_str();
}

void add_run_options(CLI::App& app, Arguments& arguments) {
  add_maps_option(app, arguments);
  app.add_option("--interfaces", arguments.interfaces,
                 "patterns of the Pods' interfaces on this node")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--answers", arguments.answers, "answers that are kept at most")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--clients", arguments.clients, "client addresses that are kept at most")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--user", arguments.user,
                 "the daemon's user, or UID:GID: its group may use the maps");
  app.add_flag("--unpin", arguments.unpin, "remove the maps at the end");
}

}  // namespace

std::optional<int> parse_arguments(int argc, const char* const* argv, Arguments& arguments) {
  CLI::App app("Attaches the program that answers DNS queries in the kernel", "meshdns-kernel");
  app.set_version_flag("--version", "meshdns-kernel " MESHDNS_VERSION);
  app.require_subcommand(1);
  CLI::App* run = app.add_subcommand("run", "load and attach the program until SIGTERM");
  add_run_options(*run, arguments);
  CLI::App* status = app.add_subcommand("status", "show interfaces, counters and maps");
  add_maps_option(*status, arguments);
  CLI::App* detach = app.add_subcommand("detach", "remove the program and the maps");
  add_maps_option(*detach, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& outcome) {  // help and version, too
    return app.exit(outcome) == 0 ? 0 : kExitUsage;
  }
  if (status->parsed()) arguments.command = Command::Status;
  if (detach->parsed()) arguments.command = Command::Detach;
  return std::nullopt;
}

}  // namespace meshdns::kernel
