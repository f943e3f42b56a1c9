// SPDX-License-Identifier: Apache-2.0
// meshdns-kernel: loads the kernel program, and keeps it attached to the Pods' interfaces.
//
// It is a program of its own so that the daemon needs no privileges: the daemon only writes into
// the pinned maps.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>

#include <array>
#include <cstdio>

#include "dnsd/kernel/loader/answer_program.hpp"
#include "dnsd/kernel/loader/arguments.hpp"
#include "dnsd/kernel/loader/attachments.hpp"
#include "dnsd/kernel/loader/log.hpp"
#include "dnsd/kernel/loader/notify.hpp"
#include "dnsd/kernel/loader/privileges.hpp"
#include "dnsd/kernel/loader/status.hpp"

namespace meshdns::kernel {
namespace {

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

Result<std::optional<unsigned>> group_for(const std::string& user) {
  if (user.empty()) return std::nullopt;
  const auto group = group_of(user);
  if (!group) return std::unexpected(group.error());
  return *group;
}

int run(const Arguments& arguments) {
  const auto group = group_for(arguments.user);
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
