// SPDX-License-Identifier: Apache-2.0
#include "dnsd/log/journal.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <systemd/sd-journal.h>

#include <algorithm>
#include <array>
#include <memory>

#include "registry/base/socket_address.hpp"

namespace meshdns::dnsd {
namespace {

struct JournalEvent {
  std::string_view message;  // the line begins with it
  std::string_view id;
};

// The identifiers never change.  A changed message keeps its identifier.
constexpr std::array<JournalEvent, 21> kJournalEvents{{
    {"ready: ", "4e88d6264704447eb7a442886c748cd9"},
    {"not ready yet: ", "df0f261735a44b70a77d4c3492e0647b"},
    {"stopping", "58c046d50592480aa75001dac37842db"},
    {"configuration changed", "02e8d241ea574acbb6b640a24fa314b0"},
    {"reload failed; the previous configuration stays in use", "9ecda1e51d16477a8d45161ce3926a3a"},
    {"cannot use state_dir; ", "ac84096d58214ddf8c40614c004f82d4"},
    {"cannot save the state", "2c7e4634b94046c5bf9634044854e9cf"},
    {"the saved state is damaged; ", "f701bf73ef25481fbc01c75fb5a76fa3"},
    {"workers do not respond", "6bf9dc34a7664b5e8b7ae64dcb75f706"},
    {"upstream server is down", "b4718f18bf1c46c39cf8ad51893a39e6"},
    {"upstream server is up again", "850b77db40e9419484b9a418350141ce"},
    {"upstream server answers all questions with an error", "e63d5459225843a7ba1d01bf40b1fcb8"},
    {"upstream server answers without errors again", "b1c4cfc6b8bc492b9ff6eaa0cbac58ac"},
    {"forwarding loop: ", "47614d179a86403a8c474de118928636"},
    {"dropped queries because the kernel's receive buffer was full",
     "15d1be70ba9c433da5e07967512445f1"},
    {"answered queries with SERVFAIL: ", "be43f3c121294a57b265ecf6d29bad94"},
    {"refused TCP connections: ", "81da49f39f774d6d934249c0faedbf28"},
    {"waiting for another process to release an address", "3728173d9bf8421f89851281003b758c"},
    {"a client is over server.rate_limit", "135a9b92aa064a94b397f09c9cb0add4"},
    {"refused a change through the admin endpoint", "d36446f83bf943d38171c5a9622d62d9"},
    {"query", "d899d953bdcf4be0a0befc2ea0dcd0da"},
}};

constexpr std::string_view kJsonPrefix = R"("message":")";

// "query" is not the beginning of "queryable"; a message that ends with a blank goes on.
bool begins_with_message(std::string_view payload, std::string_view message) {
  if (!payload.starts_with(message)) return false;
  if (payload.size() == message.size() || message.ends_with(' ')) return true;
  const char next = payload[message.size()];
  return next == ' ' || next == '"';
}

}  // namespace

bool is_journal_stream(int fd, const char* journal_stream) {
  struct stat status{};
  if (journal_stream == nullptr || ::fstat(fd, &status) != 0) return false;
  return std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino) == journal_stream;
}

FileDescriptor connect_to_journal(const char* path) {
  const auto name = unix_socket_name(path);
  if (!name) return {};
  FileDescriptor fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&*name), sizeof *name) != 0)
    return {};
  return fd;
}

int syslog_priority(LogLevel level) {
  switch (level) {
    case LogLevel::Error:
      return 3;
    case LogLevel::Warn:
      return 4;
    case LogLevel::Info:
      return 6;
    default:
      return 7;
  }
}

std::string_view journal_message_id(std::string_view payload) {
  if (payload.starts_with(kJsonPrefix)) payload.remove_prefix(kJsonPrefix.size());
  const auto* const event = std::ranges::find_if(kJournalEvents, [&](const JournalEvent& known) {
    return begins_with_message(payload, known.message);
  });
  return event == kJournalEvents.end() ? std::string_view() : event->id;
}

std::string journal_entry(LogLevel level, std::string_view line, std::string_view payload) {
  std::string entry = "SYSLOG_IDENTIFIER=meshdnsd\nPRIORITY=";
  entry += std::to_string(syslog_priority(level));
  if (const auto id = journal_message_id(payload); !id.empty()) {
    entry += "\nMESSAGE_ID=";
    entry += id;
  }
  entry += "\nMESSAGE=";
  entry += line;
  entry += '\n';
  return entry;
}

namespace {

constexpr int kMaxEntriesRead = 2'000;
constexpr std::size_t kMaxErrors = 5;

struct CloseJournal {
  void operator()(sd_journal* journal) const { sd_journal_close(journal); }
};

// The value of a field of the current entry; empty if it has none.
std::string journal_field(sd_journal* journal, const std::string& name) {
  const void* data = nullptr;
  std::size_t size = 0;
  if (sd_journal_get_data(journal, name.c_str(), &data, &size) != 0) return {};
  const std::string_view text(static_cast<const char*>(data), size);
  return std::string(text.substr(std::min(name.size() + 1, text.size())));
}

bool tells_of_a_good_run(std::string_view message) {
  return message.contains("ready: ") || message.ends_with(" stopped");
}

}  // namespace

std::vector<std::string> errors_of_last_run() {
  sd_journal* opened = nullptr;
  if (sd_journal_open(&opened, SD_JOURNAL_LOCAL_ONLY | SD_JOURNAL_SYSTEM) != 0) return {};
  const std::unique_ptr<sd_journal, CloseJournal> journal(opened);
  if (sd_journal_add_match(opened, "_SYSTEMD_UNIT=meshdnsd.service", 0) != 0 ||
      sd_journal_seek_tail(opened) != 0)
    return {};
  std::vector<std::string> errors;
  std::string run;
  for (int i = 0; i < kMaxEntriesRead && sd_journal_previous(opened) > 0; ++i) {
    std::string message = journal_field(opened, "MESSAGE");
    if (tells_of_a_good_run(message)) break;
    if (journal_field(opened, "PRIORITY") != "3") continue;
    const std::string its_run = journal_field(opened, "_SYSTEMD_INVOCATION_ID");
    if (!errors.empty() && its_run != run) break;
    run = its_run;
    errors.push_back(std::move(message));
  }
  std::ranges::reverse(errors);
  if (errors.size() > kMaxErrors) errors.resize(kMaxErrors);
  return errors;
}

}  // namespace meshdns::dnsd
