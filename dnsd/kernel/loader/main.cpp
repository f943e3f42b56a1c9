// SPDX-License-Identifier: Apache-2.0
// meshdns-kernel: loads the kernel program, and keeps it attached to the Pods' interfaces.
//
// It is a program of its own so that the daemon needs no privileges: the daemon only writes into
// the pinned maps.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/kernel/loader/answer_program.hpp"
#include "dnsd/kernel/loader/attachments.hpp"
#include "dnsd/kernel/loader/log.hpp"
#include "dnsd/kernel/loader/netlink.hpp"

namespace meshdns::kernel {
namespace {

// --- the command line (docs/man/meshdns-kernel.8) ------------------------------------------------

enum class Command : std::uint8_t { Run, Status, Detach };

struct Arguments {
  Command command = Command::Run;
  std::string maps = "/run/meshdns.bpf/maps";
  // Patterns of fnmatch(3) for the names of interfaces.
  std::vector<std::string> interfaces = {"veth*", "cali*", "lxc*"};
  std::uint32_t answers = 16384;
  std::uint32_t clients = 4096;
  std::string user;    // name, or UID:GID; empty = only root uses the maps
  bool unpin = false;  // remove the maps at the end
};

constexpr int kExitUsage = 2;

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

// Fills `arguments` and returns nullopt; or prints and returns the exit status: 0 after --help or
// --version, kExitUsage after a mistake.
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

// --- capabilities of this process ----------------------------------------------------------------

struct Capabilities {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, 2> data{};
};

constexpr std::uint32_t bit_of(unsigned capability) { return 1U << (capability % 32); }

bool has(const Capabilities& all, unsigned capability) {
  return (all.data[capability / 32].effective & bit_of(capability)) != 0;
}

Error failed_call(const char* what) { return {std::string(what) + ": " + std::strerror(errno)}; }

// Fails, naming what is missing, unless the process may load programs (CAP_BPF), attach them
// (CAP_NET_ADMIN), compare pointers in them (CAP_PERFMON: the program compares the places of
// entries, and the kernel adds no mitigations for unprivileged programs) and, with `change_group`,
// give maps to another group (CAP_CHOWN).
Result<void> check_privileges(bool change_group) {
  Capabilities own;
  if (syscall(SYS_capget, &own.header, own.data.data()) != 0)
    return std::unexpected(failed_call("capget"));
  const bool is_admin = has(own, CAP_SYS_ADMIN);  // it includes two of the others
  std::string missing;
  if (!has(own, CAP_BPF) && !is_admin) missing += " CAP_BPF";
  if (!has(own, CAP_PERFMON) && !is_admin) missing += " CAP_PERFMON";
  if (!has(own, CAP_NET_ADMIN)) missing += " CAP_NET_ADMIN";
  if (change_group && !has(own, CAP_CHOWN)) missing += " CAP_CHOWN";
  if (missing.empty()) return {};
  return fail("missing capabilities:" + missing +
              "; run meshdns-kernel as root, or by meshdns-kernel.service");
}

// Gives up all capabilities but CAP_NET_ADMIN, which attaches the program to new interfaces, and
// the right to gain others by executing files.
Result<void> drop_privileges() {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return std::unexpected(failed_call("no_new_privs"));
  if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0)
    return std::unexpected(failed_call("ambient capabilities"));
  Capabilities kept;
  kept.data[0].effective = kept.data[0].permitted = bit_of(CAP_NET_ADMIN);
  if (syscall(SYS_capset, &kept.header, kept.data.data()) != 0)
    return std::unexpected(failed_call("capset"));
  return {};
}

// --- meshdns-kernel status -----------------------------------------------------------------------

constexpr std::array<const char*, MESHDNS_COUNTERS> kCounterNames = {
    "answered_ipv4_a",    "answered_ipv4_aaaa",  "answered_ipv4_other", "answered_ipv6_a",
    "answered_ipv6_aaaa", "answered_ipv6_other", "answered_do",         "passed_other",
    "passed_client",      "passed_route",        "passed_absent",       "passed_old",
    "passed_size",        "passed_asleep",       "passed_limit"};

std::string describe_interfaces(const std::vector<Link>& links) {
  std::string names;
  for (const Link& link : links) {
    const auto found = find_filter(link.index);
    if (found && *found) names += (names.empty() ? "" : " ") + link.name;
  }
  return names.empty() ? "none" : names;
}

std::string describe_heartbeat(const meshdns_control& state) {
  if (state.heartbeat_ns == 0) return "none: the daemon fills no answers";
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(
      now - std::chrono::nanoseconds(state.heartbeat_ns));
  return fmt::format("{} ms ago", age.count());
}

// Entries of a hash map; those that come and go meanwhile may be missed.
std::size_t count_entries(int map) {
  std::array<std::array<char, sizeof(meshdns_question)>, 2> keys;
  const void* last = nullptr;
  std::size_t entries = 0;
  while (bpf_map_get_next_key(map, last, keys[entries % 2].data()) == 0) {
    last = keys[entries % 2].data();
    ++entries;
  }
  return entries;
}

std::uint64_t read_counter(int map, std::uint32_t counter) {
  const int cpus = libbpf_num_possible_cpus();
  std::vector<std::uint64_t> values(cpus > 0 ? static_cast<std::size_t>(cpus) : 0);
  if (values.empty() || bpf_map_lookup_elem(map, &counter, values.data()) != 0) return 0;
  return std::accumulate(values.begin(), values.end(), std::uint64_t{0});
}

// Interfaces with the program, the daemon's heartbeat, entries and counters, as text.  `maps` is
// the folder of the pinned maps.
Result<std::string> describe_status(const std::string& maps) {
  const auto links = list_links();
  if (!links) return std::unexpected(links.error());
  std::string text = fmt::format("{:<20} {}\n", "interfaces", describe_interfaces(*links));

  const auto control = open_pinned(maps + '/' + MESHDNS_MAP_CONTROL);
  if (!control) return std::unexpected(control.error());
  const __u32 first = 0;
  meshdns_control state{};
  bpf_map_lookup_elem(control->get(), &first, &state);
  fmt::format_to(std::back_inserter(text), "{:<20} {}\n{:<20} {}\n", "version", state.version,
                 "heartbeat", describe_heartbeat(state));

  for (const char* const name : {MESHDNS_MAP_SERVED, MESHDNS_MAP_CLIENTS, MESHDNS_MAP_ANSWERS}) {
    const auto map = open_pinned(maps + '/' + name);
    if (!map) return std::unexpected(map.error());
    fmt::format_to(std::back_inserter(text), "{:<20} {}\n", name, count_entries(map->get()));
  }
  const auto counters = open_pinned(maps + '/' + MESHDNS_MAP_COUNTERS);
  if (!counters) return std::unexpected(counters.error());
  for (std::uint32_t i = 0; i < MESHDNS_COUNTERS; ++i)
    fmt::format_to(std::back_inserter(text), "{:<20} {}\n", kCounterNames[i],
                   read_counter(counters->get(), i));
  return text;
}

// --- meshdns-kernel run --------------------------------------------------------------------------

// Sends `state`, such as READY=1, as sd_notify(3) does; nothing if systemd did not ask.  The
// loader has privileges, so it does without libsystemd and the libraries that this one needs.
void notify(const char* state) {
  const char* const path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  if (path == nullptr || std::strlen(path) >= sizeof address.sun_path) return;
  const std::string_view name(path);
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path, name.size());
  if (name.starts_with('@')) address.sun_path[0] = '\0';  // an abstract name
  const FileDescriptor fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return;
  ::sendto(fd.get(), state, std::strlen(state), MSG_NOSIGNAL,
           reinterpret_cast<const sockaddr*>(&address),
           static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size()));
}

// Failures to attach are tried again so often.  All else comes as an event.
constexpr int kLookAgainMs = 10'000;
constexpr int kTryLockMs = 200;

int report_error(const Error& error) {
  log(Level::Error, error.message);
  return 1;
}

// SIGTERM and SIGINT as a file descriptor.
FileDescriptor take_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  return FileDescriptor(signalfd(-1, &signals, SFD_CLOEXEC));
}

// During an upgrade the old loader still runs: waits until it has ended.  False: at a signal.
bool wait_for_lock(const PinFolder& folder, const FileDescriptor& signals) {
  if (folder.try_lock()) return true;
  log(Level::Info, "waiting for another meshdns-kernel to end");
  pollfd ended{.fd = signals.get(), .events = POLLIN, .revents = 0};
  while (::poll(&ended, 1, kTryLockMs) <= 0)
    if (folder.try_lock()) return true;
  return false;
}

// Returns at a signal.
void follow(Attachments& attachments, LinkEvents& events, const FileDescriptor& signals) {
  std::array<pollfd, 2> descriptors = {pollfd{.fd = events.fd(), .events = POLLIN, .revents = 0},
                                       pollfd{.fd = signals.get(), .events = POLLIN, .revents = 0}};
  for (;;) {
    const int ready = ::poll(descriptors.data(), descriptors.size(), kLookAgainMs);
    if (ready == 0) attachments.look_at_all();
    if (ready <= 0) continue;
    if (descriptors[1].revents != 0) return;
    for (const LinkEvent& event : events.take()) attachments.handle(event);
  }
}

std::optional<unsigned> to_number(std::string_view text) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The group of `user`: a user's name, or UID:GID.  Nothing without one.
Result<std::optional<unsigned>> group_of(const std::string& user) {
  if (user.empty()) return std::nullopt;
  const auto colon = user.find(':');
  if (colon != std::string::npos) {
    const auto group = to_number(std::string_view(user).substr(colon + 1));
    if (!group || !to_number(std::string_view(user).substr(0, colon)))
      return fail("--user " + user + ": neither a user's name nor UID:GID");
    return *group;
  }
  const passwd* const entry = ::getpwnam(user.c_str());
  if (entry == nullptr) return fail("--user " + user + ": no such user");
  return entry->pw_gid;
}

int run(const Arguments& arguments) {
  const auto group = group_of(arguments.user);
  if (!group) return report_error(group.error());
  if (const auto allowed = check_privileges(group->has_value()); !allowed)
    return report_error(allowed.error());
  const FileDescriptor signals = take_signals();
  const auto folder = PinFolder::open(arguments.maps);
  if (!folder) return report_error(folder.error());
  if (!wait_for_lock(*folder, signals)) return 0;
  const auto program =
      AnswerProgram::load(*folder, {.answers = arguments.answers, .clients = arguments.clients});
  if (!program) return report_error(program.error());
  if (const auto given = folder->give_to(*group); !given) return report_error(given.error());
  if (const auto dropped = drop_privileges(); !dropped) return report_error(dropped.error());
  log(Level::Info,
      program->took_over_maps() ? "loaded; took over the maps" : "loaded; made the maps",
      {{"maps", arguments.maps}, {"answers", fmt::to_string(arguments.answers)}});

  auto events = LinkEvents::open();  // before the list, so that no link is missed
  if (!events) return report_error(events.error());
  Attachments attachments(arguments.interfaces, program->fd(), program->id());
  attachments.look_at_all();
  log(Level::Info, "ready", {{"interfaces", fmt::to_string(attachments.size())}});
  notify("READY=1");
  follow(attachments, *events, signals);
  notify("STOPPING=1");
  attachments.detach_all();
  if (arguments.unpin)
    if (const auto removed = folder->remove_maps(); !removed) return report_error(removed.error());
  return 0;
}

int status(const Arguments& arguments) {
  const auto text = describe_status(arguments.maps);
  if (!text) return report_error(text.error());
  std::fputs(text->c_str(), stdout);
  return 0;
}

// The maps first: that fails while a loader runs.
int detach(const Arguments& arguments) {
  if (const auto allowed = check_privileges(false); !allowed) return report_error(allowed.error());
  if (const auto removed = PinFolder::remove_all(arguments.maps); !removed)
    return report_error(removed.error());
  const auto links = list_links();
  if (!links) return report_error(links.error());
  for (const Link& link : *links) {
    const auto found = find_filter(link.index);
    if (!found || !*found) continue;
    if (const auto done = detach_filter(link.index, Qdisc::Found); !done)
      return report_error(done.error());
    log(Level::Info, "detached", {{"interface", link.name}});
  }
  return 0;
}

int dispatch(const Arguments& arguments) {
  switch (arguments.command) {
    case Command::Run:
      return run(arguments);
    case Command::Status:
      return status(arguments);
    case Command::Detach:
      return detach(arguments);
  }
  return kExitUsage;
}

}  // namespace
}  // namespace meshdns::kernel

int main(int argc, char** argv) {
  meshdns::kernel::Arguments arguments;
  if (const auto exit_status = meshdns::kernel::parse_arguments(argc, argv, arguments))
    return *exit_status;
  return meshdns::kernel::dispatch(arguments);
}
