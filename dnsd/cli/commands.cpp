// SPDX-License-Identifier: Apache-2.0
#include "dnsd/cli/commands.hpp"

#include <unistd.h>
#include <uv.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <expected>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/answer/answer_history.hpp"
#include "dnsd/answer/decision.hpp"
#include "dnsd/answer/explanation.hpp"
#include "dnsd/cli/admin_client.hpp"
#include "dnsd/cli/answer_diff.hpp"
#include "dnsd/cli/check_report.hpp"
#include "dnsd/cli/named_files.hpp"
#include "dnsd/cli/printed_lines.hpp"
#include "dnsd/config/config.hpp"
#include "dnsd/config/load.hpp"
#include "dnsd/daemon/announcement.hpp"
#include "dnsd/daemon/daemon.hpp"
#include "dnsd/daemon/signals.hpp"
#include "dnsd/daemon/upstream_in_use.hpp"
#include "dnsd/log/journal.hpp"
#include "dnsd/mesh/engine.hpp"
#include "dnsd/mesh/past_registry.hpp"
#include "dnsd/mesh/upstream_servers.hpp"
#include "registry/analysis/analysis.hpp"
#include "registry/base/counted.hpp"
#include "registry/base/handle.hpp"
#include "registry/base/host_name.hpp"
#include "registry/base/printable.hpp"
#include "registry/base/result.hpp"
#include "registry/manifest/name_table.hpp"
#include "registry/model/mesh_settings.hpp"
#include "registry/source/advice.hpp"
#include "registry/source/check.hpp"
#include "registry/source/file_source.hpp"
#include "resolver/wire/name_text.hpp"

namespace meshdns::dnsd {
namespace {

bool is_of_files(const SourceConfig& source) {
  return std::holds_alternative<FilesSource>(source) ||
         std::holds_alternative<NameTableSource>(source);
}

void print_unread_sources(const Config& config, std::ostream& err) {
  for (const SourceConfig& source : config.sources)
    if (!is_of_files(source))
      err << "this command reads files, and not the source " << source_name(source)
          << ": its objects and their errors are known to the running daemon alone (meshdnsd "
             "status)\n";
}

// The body of the page; an Error says why there is none.
Result<std::string> body_of(const AdminClient& daemon, const std::string& target) {
  auto reply = daemon.get(target);
  if (!reply)
    return fail((reply.error().is_absent ? "no daemon to ask at " : "cannot ask the daemon at ") +
                reply.error().message);
  if (reply->status == 200) return std::move(reply->body);
  return fail("the daemon at " + to_string(daemon.address()) + " refused (" +
              std::to_string(reply->status) + "): " + error_text(*reply));
}

// An explanation of a running daemon, as lines or JSON.
struct DaemonExplanation {
  std::string lines;
  bool is_of_other_config = false;
};

Result<DaemonExplanation> explanation_of(const AdminClient& daemon, const Config& config,
                                         const ExplainArguments& asked) {
  const auto running = body_of(daemon, "/config");
  if (!running) return std::unexpected(running.error());
  const bool is_other = !is_json_of(config, *running);
  // Files cannot explain what another source has.
  if (is_other && std::ranges::all_of(config.sources, is_of_files))
    return fail("the daemon at " + to_string(daemon.address()) + " has another configuration");
  const std::string question =
      asked.connect
          ? "&connect=" + percent_encoded(asked.connect->to_string()) +
                "&sni=" + percent_encoded(asked.sni) + "&host=" + percent_encoded(asked.host)
          : "&name=" + percent_encoded(asked.name) + "&type=" + percent_encoded(asked.type);
  auto body = body_of(daemon, std::string("/explain?format=") + (asked.as_json ? "json" : "text") +
                                  question + "&from=" + percent_encoded(asked.from));
  if (!body) return std::unexpected(std::move(body).error());
  return DaemonExplanation{*std::move(body), is_other};
}

// An Error says why there is none: the admin endpoint is off, nobody answers there, a daemon with
// another configuration does, or the daemon refuses the question.
Result<DaemonExplanation> explanation_of_daemon(const Config& config,
                                                const ExplainArguments& asked) {
  std::string problems;
  for (const AdminAddress& address : in_order_of_use(config.admin.listen)) {
    auto explanation = explanation_of(AdminClient(address, ""), config, asked);
    if (explanation) return explanation;
    problems += (problems.empty() ? "" : "; ") + explanation.error().message;
  }
  return fail(problems.empty() ? "admin.listen is off" : std::move(problems));
}

constexpr const char* kJournalStream = "JOURNAL_STREAM";

// The exit status of a configuration with errors.  A file that is missing or wrong stays so, but
// the files of a VM may come later.
int status_of_errors(const LoadedConfig& loaded, const ConfigFiles& files) {
  const bool is_of_file = std::ranges::any_of(loaded.findings, [&](const auto& finding) {
    return finding.severity == registry::Severity::Error && finding.path == files.path;
  });
  return is_of_file ? kExitConfig : 1;
}

// The configuration, with its findings printed; the exit status when it cannot be used.  The
// supervisor gets the first error, too, for `systemctl status`.
std::expected<Config, int> load_or_say(const ConfigFiles& files, std::ostream& err) {
  PrintedLines lines(err, is_journal_stream(STDERR_FILENO, std::getenv(kJournalStream)));
  auto loaded = load_config(files);
  if (!loaded) {
    lines.print(loaded.error().message);
    Supervisor::failed(loaded.error().message);
    return std::unexpected(kExitConfig);
  }
  for (const auto& finding : loaded->findings) lines.print(finding);
  if (loaded->valid()) return std::move(loaded->config);
  Supervisor::failed(
      std::ranges::find(loaded->findings, registry::Severity::Error, &registry::Finding::severity)
          ->to_string());
  return std::unexpected(status_of_errors(*loaded, files));
}

// The engine of a command, which reads the files of the configuration once and follows nothing.
class OfflineEngine {
 public:
  OfflineEngine(const Config& config, std::ostream& err) : config_(of_files(config, err)) {
    check_loop(uv_loop_init(&loop_), "be made");
    engine_.emplace(&loop_, config_, forward_log_, log_, Engine::Time{});
  }
  ~OfflineEngine() {
    engine_->close();
    uv_run(&loop_, UV_RUN_DEFAULT);
    engine_.reset();
    check_loop(uv_loop_close(&loop_), "close: a handle is open");
  }
  OfflineEngine(const OfflineEngine&) = delete;
  OfflineEngine& operator=(const OfflineEngine&) = delete;

  registry::Registry& registry() { return engine_->registry; }

  // Prints why a source cannot be read.
  void read_sources(std::ostream& err) {
    engine_->sources.follow(config_);
    for (int i = 0; i < kMostTurns && !are_read(); ++i) uv_run(&loop_, UV_RUN_ONCE);
    for (const SourceReport& report : engine_->sources.reports())
      if (!report.status.last_error.empty()) PrintedLines(err).print(report.status.last_error);
  }

 private:
  static constexpr int kMostTurns = 1000;

  static Config of_files(Config config, std::ostream& err) {
    print_unread_sources(config, err);
    std::erase_if(config.sources, [](const SourceConfig& source) { return !is_of_files(source); });
    return config;
  }
  bool are_read() const {
    return std::ranges::all_of(engine_->sources.reports(), [](const SourceReport& report) {
      return report.status.complete || !report.status.last_error.empty();
    });
  }

  const Config config_;
  Log log_{{.level = LogLevel::Off}};
  ForwardLog forward_log_{log_};
  uv_loop_t loop_{};
  std::optional<Engine> engine_;
};

}  // namespace

int run_daemon(const Arguments& arguments, std::ostream& err) {
  allow_core_dumps(false);  // until the configuration says otherwise
  ignore_harmless_signals();
  auto config = load_or_say(arguments.config, err);
  if (!config) return config.error();
  allow_core_dumps(config->server.core_dumps);
  Log log({.level = config->log.level,
           .format = config->log.format,
           .journal_stream = std::getenv(kJournalStream)});
  auto daemon = Daemon::start(arguments.config, std::move(*config), log);
  if (!daemon) {
    const bool is_ended = is_end_asked();
    is_ended ? log.info("stopped during the start") : log.error(daemon.error().message);
    if (!is_ended) Supervisor::failed(daemon.error().message);
    log.flush();
    return is_ended ? 0 : 1;
  }
  const int status = (*daemon)->run();
  log.info("stopped");
  log.flush();
  return status;
}

namespace {

// Paths that cannot be read are left out: check_named_files() has reported them.
void check_sources(const Config& config, registry::Checker& checker) {
  for (const auto& source : config.sources) {
    const auto* const files = std::get_if<FilesSource>(&source);
    if (files != nullptr && may_be_source(files->path)) {
      registry::ManifestOptions of_source;
      of_source.cluster = files->cluster;
      of_source.network = files->network;
      of_source.gateway_kinds = registry::gateway_kinds_to_read(config.mesh);
      checker.check(files->path, registry::read_manifest, of_source);
    }
    const auto* const table = std::get_if<NameTableSource>(&source);
    if (table != nullptr && may_be_source(table->path))
      checker.check(table->path, registry::read_name_table);
  }
}

// The lines of the hosts file that cannot be understood, and its names that special-use names come
// before.
void check_hosts_file(const std::string& path, registry::Checker& checker) {
  if (path.empty()) return;
  const auto warn = [&](std::uint32_t line, std::string message) {
    checker.add({registry::Severity::Warning, path, line, {}, {}, {}, std::move(message)});
  };
  const auto hosts = read_hosts_file(path);
  if (!hosts) return;  // check_named_files() has said so
  for (const auto& problem : hosts->problems) warn(problem.line, problem.message);
  if (const auto more = hosts->skipped - hosts->problems.size(); more > 0)
    warn(0, "and " + counted(more, "more line") + " that cannot be understood");
  for (const auto& entry : hosts->entries) {
    if (entry.address.is_loopback()) continue;
    for (const auto& name : entry.names)
      if (std::string reason = registry::why_never_answered(name); !reason.empty())
        warn(entry.line, std::move(reason));
  }
}

// A path of the command line.
void check_path(const std::string& path, const registry::ManifestOptions& options,
                registry::Checker& checker) {
  if (path == "-")
    checker.check_standard_input(options);
  else
    checker.check(path, registry::read_manifest, options);
}

// Reads the files below `path` into the registry; false, with a message, if that is impossible.
// Invalid objects are left out.
bool read_for_diff(const std::string& path, registry::Registry& registry, std::ostream& err) {
  PrintedLines lines(err);
  registry::Checker checker(registry::Strictness::Usual, [&](const registry::Finding& finding) {
    if (finding.severity == registry::Severity::Error) lines.print(finding);
  });
  registry::Transaction transaction;
  checker.set_resource_listener(
      [&](const auto& resource, const std::string& origin, std::uint32_t line) {
        transaction.upsert(resource, origin, line);
      });
  registry::ManifestOptions options;
  options.gateway_kinds = registry::gateway_kinds_to_read(*registry.current()->settings);
  check_path(path, options, checker);
  registry.commit(std::move(transaction));
  return !checker.summary().cannot_run;
}

// Warns of names that objects give to gateways and may not give.  Checker::check_claims() has the
// other refusals.
void warn_of_gateway_names(const registry::Changes& changes, const registry::Snapshot& snapshot,
                           registry::Checker& checker) {
  for (const auto& claim : changes.refused) {
    const registry::StoredResource& source = *claim.source;
    if (source.kind() != registry::Kind::Service && !registry::is_gateway_kind(source.kind()))
      continue;
    checker.add({registry::Severity::Warning,
                 std::string(snapshot.origins->of(source.origin())),
                 source.line(),
                 std::string(to_string(source.kind())),
                 std::string(source.ns()) + "/" + std::string(source.name()),
                 {},
                 registry::in_quotes(claim.host) + " is not served: " + claim.reason});
  }
}

int run_check_diff(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  registry::MeshSettings settings;
  if (!arguments.config.name().empty()) {
    const auto config = load_or_say(arguments.config, err);
    if (!config) return kExitUsage;
    settings = config->mesh;
  }
  registry::Registry before(settings);
  registry::Registry after(settings);
  if (!read_for_diff(arguments.check.diff[0], before, err) ||
      !read_for_diff(arguments.check.diff[1], after, err))
    return kExitUsage;
  const AnswerDiff diff = compare_answers(before, after, arguments.check.clients);
  out << (arguments.check.format == CheckFormat::Json ? ascii_json(to_json(diff)) : to_text(diff));
  return diff.changes.empty() ? 0 : 1;
}

}  // namespace

int run_check(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  if (!arguments.check.diff.empty()) return run_check_diff(arguments, out, err);
  const bool is_strict = arguments.check.strict;
  const auto report = make_check_report(arguments.check.format, out);
  registry::Checker checker(
      is_strict ? registry::Strictness::WarningsAreErrors : registry::Strictness::Usual,
      [&](const registry::Finding& finding) { report->add(finding); });
  LoadedConfig loaded;
  if (!arguments.config.name().empty()) {
    auto read = load_config(arguments.config);
    if (!read) {
      PrintedLines(err).print(read.error().message);
      return kExitUsage;
    }
    loaded = *std::move(read);
    for (const auto& finding : loaded.findings) checker.add(finding);
    ConfigFiles files = arguments.config;
    if (files.path == "-") files.path = kStandardInput;
    if (loaded.valid())
      check_named_files(loaded, files,
                        [&](registry::Finding finding) { checker.add(std::move(finding)); });
  }
  registry::Registry registry(loaded.config.mesh);
  registry::Transaction transaction;
  checker.set_resource_listener(
      [&](const auto& resource, const std::string& path, std::uint32_t line) {
        transaction.upsert(resource, path, line);
      });
  registry::ManifestOptions of_paths;
  of_paths.gateway_kinds = registry::gateway_kinds_to_read(loaded.config.mesh);
  for (const auto& path : arguments.paths) check_path(path, of_paths, checker);
  if (arguments.paths.empty() && loaded.valid()) {
    print_unread_sources(loaded.config, err);
    check_sources(loaded.config, checker);
  }
  if (loaded.valid()) check_hosts_file(loaded.config.hosts.file, checker);
  const registry::Changes committed = registry.commit(std::move(transaction));
  warn_of_gateway_names(committed, *registry.current(), checker);
  // With those of MeshConfig: the root namespace is exempt from some of the rules.
  checker.check_claims(*registry.current()->settings);
  registry::CheckSummary summary = checker.summary();
  for (auto& finding : registry::analyse(*registry.current()).findings) {
    using registry::Weight;
    if (is_strict && finding.weight == Weight::Warning) finding.weight = Weight::Error;
    ++(finding.weight == Weight::Error     ? summary.errors
       : finding.weight == Weight::Warning ? summary.warnings
                                           : summary.notes);
    report->add(finding);
  }
  report->end(summary);
  return summary.exit_status();
}

namespace {

// Returns the client that `from` names: an IP address (its Pod, or a client of that address), or a
// namespace.
registry::ClientSettings explained_client(const Config& config, const std::string& from) {
  registry::ClientSettings settings = client_settings(config);
  if (!from.empty() && !IpAddress::parse(from)) {
    settings.default_identity = {};
    settings.default_identity.ns = from;
    settings.default_identity.description = "any client";
  }
  return settings;
}

std::shared_ptr<const LocalNames> local_names(const Config& config, std::ostream& err) {
  HostsFile hosts;
  if (!config.hosts.file.empty()) {
    auto read = read_hosts_file(config.hosts.file);
    if (read)
      hosts = *std::move(read);
    else
      PrintedLines(err).print(read.error().message);
  }
  return std::make_shared<const LocalNames>(hosts, config.overrides, config.dns64.prefix);
}

// An explained name or connection, and where it is explained from.
struct ExplainedState {
  registry::Registry& registry;
  const Config& config;
  const ExplainArguments& asked;
  std::vector<wire::Type> types;
  std::vector<std::string> notes;  // before the explanation
};

bool has_verdict(const Explanation& explanation, Verdict verdict) {
  return std::ranges::any_of(explanation.answers, [&](const Explanation::Answer& answer) {
    return answer.verdict.starts_with(to_string(verdict));
  });
}

// When the answer changed last, as far back as the history goes.
std::string last_change_of(const Config& config, std::int64_t time, std::int64_t oldest,
                           const registry::View& view, std::string_view name) {
  const std::string asked = canonical_host(name);
  const registry::Match match = view.lookup(asked);
  const std::string host(match.entry != nullptr ? match.entry->host() : asked);
  const auto event = last_change_before(config.state_dir, time, host);
  if (event) return "since " + time_text(event->unix_seconds) + ": " + change_text(*event);
  return "since: unchanged since " + time_text(oldest) + ", the oldest that is kept";
}

// Prints the explanation; returns the exit status.
int print_explanation(const ExplainedState& state, const Past* past, std::ostream& out,
                      std::ostream& err) {
  const ExplainArguments& asked = state.asked;
  const auto address = IpAddress::parse(asked.from);
  const auto& snapshot = state.registry.current();
  const registry::Client* client =
      address ? snapshot->client_at(*address) : snapshot->default_client.get();
  // Text has them in front, JSON among the facts.
  std::vector<std::string> notes;
  if (asked.as_json) notes = state.notes;
  if (!asked.as_json)
    for (const std::string& note : state.notes)
      out << registry::printable(note, note.size()) << '\n';
  if (!asked.from.empty() && !address)
    if (std::string note = unknown_namespace(*snapshot, asked.from); !note.empty())
      notes.push_back(std::move(note));
  if (client == nullptr && asked.connect) {
    const std::string refused = registry::printable(asked.from) +
                                " is not a known client, and client.unknown is refuse: REFUSED";
    out << (asked.as_json ? "{\n  \"client\": \"" + refused + "\"\n}" : refused) << '\n';
    return 0;
  }
  if (asked.connect) {
    const registry::View view(*snapshot, *client);
    const registry::Connection connection{asked.connect->ip, asked.connect->port, asked.sni,
                                          asked.host};
    registry::TrafficMatch match = match_traffic(view, connection);
    match.notes.insert(match.notes.end(), notes.begin(), notes.end());
    if (asked.as_json) {
      out << indented_json(traffic_json(view, connection, match));
      return 0;
    }
    for (const auto& line : traffic_lines(view, connection, match))
      out << registry::printable(line, line.size()) << '\n';
    return 0;
  }
  std::string warning;
  const UpstreamConfig upstream =
      effective_upstream(state.config, state.config.server.listen, &warning);
  QuerySettings settings = QuerySettings::from(state.config);
  settings.local = local_names(state.config, err);
  // Cache and health are the running daemon's to know.
  const auto forwarding = [&](std::string_view wire_name, wire::Type) {
    return ForwardingFacts{describe_route(route_for(upstream, wire_name)), {}, {}};
  };
  auto explanation =
      client == nullptr && address
          ? explain_unknown_client(asked.name, *address)
          : explain({*snapshot, *client, settings, asked.name, state.types, forwarding});
  if (explanation && address) add_client_facts(*explanation, *snapshot, settings.allow, *address);
  if (!explanation) {
    PrintedLines(err).print("meshdnsd: " + explanation.error().message);
    return kExitUsage;
  }
  for (const std::string& note : notes | std::views::reverse)
    explanation->facts.insert(explanation->facts.begin(), {note, true});
  if (past != nullptr && client != nullptr)
    explanation->facts.push_back({last_change_of(state.config, *asked.at, past->oldest,
                                                 registry::View(*snapshot, *client), asked.name),
                                  true});
  if (asked.as_json)
    out << indented_json(to_json(*explanation, Audience::Operator));
  else
    for (const auto& line : to_lines(*explanation, Audience::Operator))
      out << registry::printable(line, line.size()) << '\n';
  std::ostream& remarks = asked.as_json ? err : out;
  if (past != nullptr && has_verdict(*explanation, Verdict::Forward))
    remarks << "note: the answers of upstream servers are not kept\n";
  if (past == nullptr && has_verdict(*explanation, Verdict::Wait))
    remarks
        << "note: this command does not look up the names of endpoints; /explain of the running "
           "daemon has their addresses\n";
  return 0;
}

// Explains from the history in state_dir.
int explain_past(const Config& config, const ExplainArguments& asked, std::vector<wire::Type> types,
                 std::ostream& out, std::ostream& err) {
  PrintedLines lines(err);
  if (config.state_dir.empty()) {
    lines.print("meshdnsd: explain --at: state_dir is not set, so no history is kept");
    return kExitUsage;
  }
  const auto past =
      read_past(config.state_dir, *asked.at, config.mesh, explained_client(config, asked.from));
  if (!past) {
    lines.print("meshdnsd: " + past.error().message);
    return kExitUsage;
  }
  if (!past->trouble.empty()) lines.print(past->trouble);
  std::vector<std::string> notes{
      fmt::format("answer of {}, from the history in {} (the oldest that is kept: {})",
                  time_text(*asked.at), config.state_dir, time_text(past->oldest))};
  if (past->replay->facts().configuration != hash_of_answers(config))
    notes.emplace_back(
        "note: the configuration was another one then; the objects of then are explained with the "
        "present one");
  return print_explanation(
      {past->replay->registry(), config, asked, std::move(types), std::move(notes)}, &*past, out,
      err);
}

}  // namespace

int run_explain(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  auto config = load_or_say(arguments.config, err);
  if (!config) return kExitUsage;
  const ExplainArguments& asked = arguments.explain;
  std::vector<wire::Type> types;
  if (wire::Type type{}; wire::type_from_string(asked.type, type)) types.push_back(type);
  if (asked.at) return explain_past(*config, asked, std::move(types), out, err);
  if (!asked.offline) {
    const auto explained = explanation_of_daemon(*config, asked);
    if (explained) {
      out << (asked.as_json ? indented_json(explained->lines) : printable_lines(explained->lines));
      err << "explained by the running daemon"
          << (explained->is_of_other_config
                  ? ", which has another configuration; `meshdnsd reload` makes it read this one\n"
                  : "\n");
      return 0;
    }
    PrintedLines(err).print("explained from the files; " + explained.error().message);
  }
  OfflineEngine engine(*config, err);
  engine.registry().set_clients(explained_client(*config, asked.from));
  engine.read_sources(err);
  return print_explanation({engine.registry(), *config, asked, std::move(types), {}}, nullptr, out,
                           err);
}

}  // namespace meshdns::dnsd
