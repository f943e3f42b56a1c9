// SPDX-License-Identifier: Apache-2.0
#include "dnsd/cli/arguments.hpp"

#include <sys/utsname.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <map>
#include <ostream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "dnsd/config/enum_names.hpp"
#include "dnsd/config/values.hpp"
#include "registry/base/did_you_mean.hpp"
#include "registry/base/host_name.hpp"
#include "registry/base/ip_address.hpp"
#include "registry/base/printable.hpp"
#include "resolver/wire/name_text.hpp"
#include "resolver/wire/types.hpp"

namespace meshdns::dnsd {
namespace {

CLI::Validator non_empty() {
  return CLI::Validator(
      [](const std::string& text) { return text.empty() ? "must not be empty" : ""; }, "");
}

// Words are checked before anybody is asked.
CLI::Validator one_of(std::vector<std::string_view> words) {
  return CLI::Validator(
      [words = std::move(words)](const std::string& text) {
        if (std::ranges::find(words, text) != words.end()) return std::string();
        std::string list;
        for (const std::string_view word : words)
          list += (list.empty() ? "" : ", ") + std::string(word);
        return in_quotes(text) + " is not one of " + list + did_you_mean(text, words);
      },
      "");
}

CLI::Validator domain_name() {
  return CLI::Validator(
      [](const std::string& text) {
        if (text.empty()) return std::string("must not be empty");
        const auto name = wire::name_from_text(text);
        return name ? std::string() : name.error().message;
      },
      "");
}

CLI::Validator record_type() {
  return CLI::Validator(
      [](const std::string& text) {
        wire::Type type{};
        if (wire::type_from_string(text, type)) return std::string();
        constexpr int kTypesWithNames = 260;
        std::vector<std::string> names;
        for (int number = 0; number < kTypesWithNames; ++number)
          names.push_back(wire::to_string(static_cast<wire::Type>(number)));
        std::erase_if(names, [](const std::string& name) { return name.starts_with("TYPE"); });
        return in_quotes(text) + " is not a record type" +
               did_you_mean(text, std::vector<std::string_view>(names.begin(), names.end()));
      },
      "");
}

CLI::Validator is_namespace() {
  return CLI::Validator(
      [](const std::string& text) {
        return is_label(text) ? std::string() : in_quotes(text) + " is not a namespace";
      },
      "");
}

CLI::Validator namespace_or_address() {
  return CLI::Validator(
      [](const std::string& text) {
        return is_label(text) || IpAddress::parse(text)
                   ? std::string()
                   : in_quotes(text) + " is neither an IP address nor a namespace";
      },
      "");
}

CLI::Validator is_duration() {
  return CLI::Validator(
      [](const std::string& text) {
        const auto duration = parse_duration(text);
        return duration ? std::string() : duration.error().message;
      },
      "");
}

CLI::Option* add_text(CLI::App& app, const char* name, std::string& value, const char* type,
                      const char* description) {
  return app.add_option(name, value, description)->type_name(type)->check(non_empty());
}

void add_config_option(CLI::App& app, Arguments& arguments) {
  add_text(app, "--config", arguments.config.path, "FILE", "configuration file");
}

struct CommandEnd {
  std::string_view name;
  const char* text;
};

// The end of each command's usage.  docs/man/meshdnsd.8 has these lines, too.
constexpr auto kCommandEnds = std::to_array<CommandEnd>({
    {"run",
     "Examples:\n"
     "  meshdnsd run --config /etc/meshdns/meshdns.yaml\n"
     "  meshdnsd --istio-vm /etc/istio/vm\n"
     "Exit status:\n"
     "  0   ended by a signal\n"
     "  1   cannot start\n"
     "  2   mistake in the command line\n"
     "  78  the configuration has errors, is empty or cannot be read"},
    {"check",
     "Examples:\n"
     "  meshdnsd check\n"
     "  meshdnsd check --strict /etc/meshdns/resources\n"
     "  kubectl get services -A -o yaml | meshdnsd check -\n"
     "  meshdnsd check --diff before.yaml after.yaml\n"
     "Exit status:\n"
     "  0   no errors; with --diff, all answers are equal\n"
     "  1   errors; with --strict, also warnings; with --diff, some answers differ\n"
     "  2   cannot run, or cannot read a file of resources"},
    {"explain",
     "Examples:\n"
     "  meshdnsd explain api.example.org\n"
     "  meshdnsd explain api.example.org AAAA --from shop\n"
     "  meshdnsd explain --connect 10.0.0.7:443 --sni api.example.org\n"
     "Exit status:\n"
     "  0   explained, whatever the answer is\n"
     "  2   cannot run, as the configuration has errors"},
    {"status",
     "Examples:\n"
     "  meshdnsd status\n"
     "  meshdnsd status --strict --json\n"
     "  meshdnsd status --ready --admin unix:/run/meshdns/admin.sock\n"
     "Exit status:\n"
     "  0   ready; with --live, no thread hangs\n"
     "  1   not ready; with --ready and --live, also if no daemon answers\n"
     "  2   no daemon answers\n"
     "  3   degraded, with --strict"},
    {"reload",
     "Examples:\n"
     "  meshdnsd reload\n"
     "  meshdnsd reload --pid 4711\n"
     "Exit status:\n"
     "  0   reloaded; with --pid, the signal is sent\n"
     "  1   the configuration is refused, or an address cannot be used\n"
     "  2   no daemon answers"},
    {"cache",
     "Examples:\n"
     "  meshdnsd cache\n"
     "  meshdnsd cache www.example.org\n"
     "  meshdnsd cache --zone example.org --json\n"
     "Exit status:\n"
     "  0   shown, also if there are no such entries\n"
     "  1   the daemon refuses\n"
     "  2   no daemon answers"},
    {"flush",
     "Examples:\n"
     "  meshdnsd flush www.example.org\n"
     "  meshdnsd flush --zone example.org\n"
     "Exit status:\n"
     "  0   removed, also if there was nothing\n"
     "  1   the daemon refuses, as without the token\n"
     "  2   no daemon answers"},
    {"log-level",
     "Examples:\n"
     "  meshdnsd log-level\n"
     "  meshdnsd log-level debug\n"
     "Exit status:\n"
     "  0   shown or changed\n"
     "  1   the daemon refuses, as without the token\n"
     "  2   no daemon answers"},
    {"top",
     "Examples:\n"
     "  meshdnsd top\n"
     "  meshdnsd top --once\n"
     "Exit status:\n"
     "  0   shown\n"
     "  1   the daemon refuses\n"
     "  2   no daemon answers"},
    {"dependencies",
     "Examples:\n"
     "  meshdnsd dependencies --namespace shop --since 168h\n"
     "  meshdnsd dependencies --hidden --json\n"
     "  meshdnsd dependencies --from node-1.json node-2.json --dot\n"
     "  meshdnsd dependencies --forget --workload web\n"
     "Exit status:\n"
     "  0   shown or removed, also if there is no such row\n"
     "  1   the daemon refuses, as without the token\n"
     "  2   no daemon answers, or a file cannot be read"},
    {"help",
     "Examples:\n"
     "  meshdnsd help check\n"
     "Exit status:\n"
     "  0   shown\n"
     "  2   no such command"},
});

CLI::App* add_plain_command(CLI::App& app, const char* name, const char* description) {
  return app.add_subcommand(name, description)
      ->footer(std::ranges::find(kCommandEnds, std::string_view(name), &CommandEnd::name)->text);
}

// Adds a command that has a configuration.
CLI::App* add_command(CLI::App& app, Arguments& arguments, Command command, const char* name,
                      const char* description) {
  CLI::App* added = add_plain_command(app, name, description);
  added->callback([&arguments, command] { arguments.command = command; });
  add_config_option(*added, arguments);
  return added;
}

// Every command that prints something has it.
CLI::Option* add_json_option(CLI::App& app, bool& as_json) {
  return app.add_flag("--json", as_json, "print JSON");
}

void add_istio_vm_option(CLI::App& app, Arguments& arguments) {
  add_text(app, "--istio-vm", arguments.config.istio_vm, "DIR",
           "directory with the files of \"istioctl x workload entry configure\"");
}

const std::map<std::string, CheckFormat> kCheckFormats = {
    {"text", CheckFormat::Text}, {"json", CheckFormat::Json}, {"sarif", CheckFormat::Sarif}};

void add_check_options(CLI::App& app, Arguments& arguments) {
  CheckArguments& check = arguments.check;
  auto* paths = app.add_option("PATH", arguments.paths,
                               "files or directories of resources; - is standard input");
  app.add_flag("--strict", check.strict, "treat warnings as errors");
  auto* format = app.add_option("--format", check.format, "text (default), json or sarif")
                     ->type_name("FORMAT")
                     ->transform(CLI::Transformer(kCheckFormats))
                     ->transform(one_of({"text", "json", "sarif"}))  // it comes before the other
                     ->option_text("text|json|sarif");
  app.add_flag_callback(
         "--json", [&check] { check.format = CheckFormat::Json; }, "print JSON: --format json")
      ->excludes(format);
  auto* diff = app.add_option("--diff", check.diff,
                              "say which names two sets of resources answer differently")
                   ->type_name("OLD NEW")
                   ->expected(2)
                   ->excludes(paths);
  app.add_option("--client", check.clients, "namespace of a client, for --diff (default: all)")
      ->type_name("NAMESPACE")
      ->needs(diff)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(is_namespace());
}

// Options whose texts are read once all are known.
struct TypedTexts {
  std::string connect;
  std::string at;
  std::string since;
};

void add_explain_options(CLI::App& app, Arguments& arguments, TypedTexts& texts) {
  ExplainArguments& explain = arguments.explain;
  app.add_option("NAME", explain.name, "host name that is asked for")->check(domain_name());
  app.add_option("TYPE", explain.type, "record type (default: A and AAAA, or what fits the name)")
      ->check(record_type());
  add_text(app, "--from", explain.from, "NAMESPACE|IP", "client: its namespace or its IP address")
      ->check(namespace_or_address());
  auto* offline = app.add_flag("--offline", explain.offline,
                               "explain from the files, without the running daemon");
  add_text(app, "--at", texts.at, "TIME",
           "explain the answer of that time, from the history in state_dir: 14:05, -2h or "
           "2026-11-28T14:05:00Z")
      ->excludes(offline);
  add_json_option(app, explain.as_json);
  auto* connect = app.add_option("--connect", texts.connect,
                                 "explain a connection instead: which service it would match")
                      ->type_name("IP:PORT");
  auto* sni = add_text(app, "--sni", explain.sni, "NAME", "server name of the TLS connection")
                  ->needs(connect);
  add_text(app, "--host", explain.host, "NAME", "host of the HTTP request")
      ->needs(connect)
      ->excludes(sni);
}

void add_control_options(CLI::App& app, Arguments& arguments) {
  add_text(app, "--admin", arguments.control.admin, "ADDRESS",
           "admin endpoint of the daemon (default: admin.listen of the configuration)");
}

void add_token_option(CLI::App& app, Arguments& arguments) {
  add_text(app, "--token-file", arguments.control.token_file, "FILE",
           "file with the token for changes over TCP (default: admin.token_file)");
}

void add_dependency_options(CLI::App& app, Arguments& arguments, TypedTexts& texts) {
  DependencyArguments& dependencies = arguments.dependencies;
  add_control_options(app, arguments);
  add_token_option(app, arguments);
  auto* ns = add_text(app, "--namespace", dependencies.ns, "NAMESPACE", "namespace of the clients")
                 ->check(is_namespace());
  auto* workload = add_text(app, "--workload", dependencies.workload, "WORKLOAD",
                            "workload that asks, such as a Deployment");
  auto* host = add_text(app, "--host", dependencies.host, "HOST",
                        "host that is asked for, and all names below it")
                   ->check(domain_name());
  auto* since =
      add_text(app, "--since", texts.since, "DURATION", "asked for in that time: 168h, 30m")
          ->check(is_duration());
  auto* hidden =
      app.add_flag("--hidden", dependencies.hidden, "only hosts that the client may not see");
  auto* from = app.add_option("--from", dependencies.from,
                              "files with the JSON of several nodes, instead of a daemon")
                   ->type_name("FILE")
                   ->check(non_empty());
  auto* json = add_json_option(app, arguments.control.as_json);
  auto* dot = app.add_flag("--dot", dependencies.dot, "print a graph for Graphviz")->excludes(json);
  auto* mermaid = app.add_flag("--mermaid", dependencies.mermaid, "print a graph for Mermaid")
                      ->excludes(json)
                      ->excludes(dot);
  auto* forget = app.add_flag("--forget", dependencies.forget,
                              "remove the rows of a namespace, a workload or a host");
  for (CLI::Option* other : {since, hidden, from, dot, mermaid}) forget->excludes(other);
  auto* all = app.add_flag("--all", dependencies.all, "with --forget: all rows")->needs(forget);
  for (CLI::Option* other : {ns, workload, host}) all->excludes(other);
}

void add_control_commands(CLI::App& app, Arguments& arguments, TypedTexts& texts) {
  ControlArguments& control = arguments.control;
  CLI::App* status = add_command(app, arguments, Command::Status, "status",
                                 "show the state of the running daemon");
  add_control_options(*status, arguments);
  auto* json = add_json_option(*status, control.as_json);
  status->add_flag("--strict", control.strict, "exit with 3 if the daemon is degraded");
  auto* ready = status->add_flag("--ready", control.ready,
                                 "print one line, and exit with 0 if the daemon is ready, else 1");
  status
      ->add_flag("--live", control.live,
                 "print one line, and exit with 0 if no thread of the daemon hangs, else 1")
      ->excludes(ready)
      ->excludes(json);
  ready->excludes(json);
  CLI::App* reload = add_command(app, arguments, Command::Reload, "reload",
                                 "make the running daemon read its configuration again");
  add_control_options(*reload, arguments);
  add_token_option(*reload, arguments);
  add_json_option(*reload, control.as_json);
  add_istio_vm_option(*reload, arguments);
  reload
      ->add_option("--pid", control.pid,
                   "process to signal if no admin endpoint can be used, after a check")
      ->type_name("PID")
      ->check(CLI::PositiveNumber);
  CLI::App* cache = add_command(app, arguments, Command::Cache, "cache",
                                "show the cache of the daemon, or entries of it");
  add_control_options(*cache, arguments);
  auto* cached_name = cache->add_option("NAME", control.name, "show the entries for this name")
                          ->check(domain_name());
  auto* cached_zone = add_text(*cache, "--zone", control.zone, "ZONE",
                               "or those for this zone and all names below it; . for all")
                          ->check(domain_name())
                          ->excludes(cached_name);
  cache->add_flag("--top", control.largest, "or those that take the most memory")
      ->excludes(cached_name)
      ->excludes(cached_zone);
  add_json_option(*cache, control.as_json);
  CLI::App* flush = add_command(app, arguments, Command::Flush, "flush",
                                "remove answers from the cache of the daemon");
  add_control_options(*flush, arguments);
  add_token_option(*flush, arguments);
  add_json_option(*flush, control.as_json);
  auto* name = flush->add_option("NAME", control.name, "remove the answers for this name")
                   ->check(domain_name());
  add_text(*flush, "--zone", control.zone, "ZONE",
           "or for this zone and all names below it; . for all")
      ->check(domain_name())
      ->excludes(name);
  CLI::App* level = add_command(app, arguments, Command::LogLevel, "log-level",
                                "show or change the log level of the running daemon");
  add_control_options(*level, arguments);
  add_token_option(*level, arguments);
  add_json_option(*level, control.as_json);
  CLI::App* top =
      add_command(app, arguments, Command::Top, "top", "show the names and clients that ask most");
  add_control_options(*top, arguments);
  auto* once = top->add_flag("--once", control.once, "print once and end, also at a terminal");
  add_json_option(*top, control.as_json)->excludes(once);
  add_dependency_options(*add_command(app, arguments, Command::Dependencies, "dependencies",
                                      "show which workload asks for what"),
                         arguments, texts);
  std::vector<std::string_view> levels;
  for (const auto& [value, text] : EnumNames<LogLevel>::table) levels.push_back(text);
  level->add_option("LEVEL", control.level, "trace, debug, info, warn, error or off")
      ->check(one_of(std::move(levels)));
}

Result<void> finish_explain(ExplainArguments& explain, const TypedTexts& texts) {
  for (char& c : explain.type)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  if (!texts.at.empty()) {
    const auto at = parse_moment(texts.at, static_cast<std::int64_t>(std::time(nullptr)));
    if (!at) return fail("--at: " + at.error().message);
    explain.at = *at;
  }
  if (!texts.connect.empty()) {
    auto connect = parse_socket_address(texts.connect);
    if (!connect) return fail("--connect: " + connect.error().message);
    explain.connect = *connect;
  }
  if (explain.name.empty() && !explain.connect)
    return fail("explain: NAME is missing (or --connect IP:PORT)");
  return {};
}

Result<void> finish_dependencies(DependencyArguments& dependencies, const TypedTexts& texts) {
  const bool is_some = !dependencies.ns.empty() || !dependencies.workload.empty() ||
                       !dependencies.host.empty() || dependencies.all;
  if (dependencies.forget && !is_some)
    return fail(
        "dependencies --forget: --namespace, --workload or --host is missing (--all for all rows)");
  if (!texts.since.empty())
    dependencies.since =
        std::chrono::duration_cast<std::chrono::seconds>(*parse_duration(texts.since));
  return {};
}

Result<void> finish_config(Arguments& arguments, std::string_view default_config) {
  // `check PATH...` and `check --diff` alone check resources against the default configuration.
  const bool checks_resources = arguments.command == Command::Check &&
                                (!arguments.paths.empty() || !arguments.check.diff.empty());
  if (!arguments.config.path.empty() || checks_resources) return {};
  // The running daemon may be at the default address, or at that of --admin.
  const bool may_lack_config = arguments.is_control() || !arguments.config.istio_vm.empty();
  std::error_code ignored;
  if (std::filesystem::exists(default_config, ignored))
    arguments.config.path = default_config;
  else if (!may_lack_config)
    return fail("--config FILE is missing, and there is no " + std::string(default_config));
  return {};
}

// "-" is the standard input.  A daemon reads its configuration again.
Result<void> finish_standard_input(const Arguments& arguments) {
  const bool is_config = arguments.config.path == "-";
  if (is_config && (arguments.command != Command::Check || !arguments.check.diff.empty()))
    return fail("--config -: only `check` reads the configuration from standard input");
  const auto uses = std::ranges::count(arguments.paths, "-") +
                    std::ranges::count(arguments.check.diff, "-") + (is_config ? 1 : 0);
  if (uses > 1) return fail("check: standard input can be read once only");
  return {};
}

Result<void> finish(Arguments& arguments, const TypedTexts& texts,
                    std::string_view default_config) {
  if (arguments.command == Command::Flush && arguments.control.name.empty() &&
      arguments.control.zone.empty())
    return fail("flush: NAME or --zone ZONE is missing (--zone . for everything)");
  if (arguments.command == Command::Explain) {
    const auto explained = finish_explain(arguments.explain, texts);
    if (!explained) return explained;
  }
  if (auto finished = finish_dependencies(arguments.dependencies, texts); !finished)
    return finished;
  if (!arguments.check.diff.empty() && arguments.check.format == CheckFormat::Sarif)
    return fail("check: --diff has the formats text and json");
  if (auto input = finish_standard_input(arguments); !input) return input;
  return finish_config(arguments, default_config);
}

// The words that the command line may have at the place of one that is not expected.
std::vector<std::string> expected_words(const CLI::App& app, bool wants_options) {
  const auto chosen = app.get_subcommands();
  const CLI::App& command = chosen.empty() ? app : *chosen.front();
  std::vector<std::string> words;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames())
      if (wants_options) words.push_back("--" + name);
  if (!wants_options && chosen.empty())
    for (const CLI::App* each : app.get_subcommands({})) words.push_back(each->get_name());
  return words;
}

// The mistake in the command line, and what may have been meant.
std::string mistake_text(const CLI::App* app, const CLI::Error& error) {
  std::string text = error.what();
  for (const std::string& word : app->remaining(true)) {
    const auto known = expected_words(*app, word.starts_with('-'));
    const std::string guess =
        did_you_mean(std::string_view(word).substr(0, word.find('=')),
                     std::vector<std::string_view>(known.begin(), known.end()));
    text += guess;
    if (!guess.empty()) break;
  }
  return text + "\nRun with --help for more information.\n";
}

// `help`, with the name of a command or without.
int print_help(const CLI::App& app, const std::string& command, std::ostream& out,
               std::ostream& err) {
  if (command.empty()) {
    out << app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal);
    return 0;
  }
  const auto commands = app.get_subcommands({});
  const auto found =
      std::ranges::find(commands, command, [](const CLI::App* each) { return each->get_name(); });
  if (found == commands.end()) {
    std::vector<std::string> names;
    for (const CLI::App* each : commands) names.push_back(each->get_name());
    err << "meshdnsd: " << in_quotes(command) << " is not a command"
        << did_you_mean(command, std::vector<std::string_view>(names.begin(), names.end())) << '\n';
    return kExitUsage;
  }
  out << (*found)->help(app.get_name());
  return 0;
}

// The seconds of "HH:MM" or "HH:MM:SS" since midnight.
std::optional<int> parse_time_of_day(std::string_view text) {
  const bool has_seconds = text.size() == 8;
  if (!has_seconds && text.size() != 5) return std::nullopt;
  int seconds = 0;
  for (std::size_t i = 0; i < text.size(); i += 3) {
    int part = 0;
    const char* const end = text.data() + i + 2;
    if (i > 0 && text[i - 1] != ':') return std::nullopt;
    if (const auto [rest, code] = std::from_chars(text.data() + i, end, part);
        code != std::errc() || rest != end || part < 0 || part > (i == 0 ? 23 : 59))
      return std::nullopt;
    seconds = 60 * seconds + part;
  }
  return has_seconds ? seconds : 60 * seconds;
}

// The time of day by the clock of the machine, on the day of `moment`.
std::int64_t on_that_day(std::int64_t moment, int seconds, int days) {
  const auto time = static_cast<std::time_t>(moment);
  std::tm local{};
  ::localtime_r(&time, &local);
  local.tm_mday += days;
  local.tm_hour = seconds / 3600;
  local.tm_min = seconds / 60 % 60;
  local.tm_sec = seconds % 60;
  local.tm_isdst = -1;
  return static_cast<std::int64_t>(std::mktime(&local));
}

// "2026-11-28T14:05:00Z", "2026-11-28T14:05:00+01:00".
std::optional<std::int64_t> parse_timestamp(std::string_view text) {
  constexpr std::size_t kDate = 10;
  if (text.size() < kDate + 1 || (text[kDate] != 'T' && text[kDate] != ' ')) return std::nullopt;
  std::tm day{};
  const std::string date(text.substr(0, kDate));
  const char* const end = ::strptime(date.c_str(), "%Y-%m-%d", &day);
  if (end == nullptr || *end != '\0') return std::nullopt;
  std::string_view rest = text.substr(kDate + 1);
  const std::size_t zone_at = rest.find_first_of("Z+-");
  const std::string_view zone = rest.substr(std::min(zone_at, rest.size()));
  const auto seconds = parse_time_of_day(rest.substr(0, std::min(zone_at, rest.size())));
  if (!seconds) return std::nullopt;
  if (zone.empty()) {
    day.tm_isdst = -1;
    day.tm_hour = 12;  // of that day, in any zone
    return on_that_day(static_cast<std::int64_t>(std::mktime(&day)), *seconds, 0);
  }
  const std::int64_t utc = static_cast<std::int64_t>(::timegm(&day)) + *seconds;
  if (zone == "Z") return utc;
  const auto offset = zone.front() == 'Z' ? std::nullopt : parse_time_of_day(zone.substr(1));
  if (!offset) return std::nullopt;
  return zone.front() == '+' ? utc - *offset : utc + *offset;
}

}  // namespace

Result<std::int64_t> parse_moment(std::string_view text, std::int64_t now) {
  std::optional<std::int64_t> moment = parse_timestamp(text);
  if (text.starts_with('-')) {
    const auto ago = parse_duration(text.substr(1));
    if (!ago) return std::unexpected(ago.error());
    moment = now - std::chrono::duration_cast<std::chrono::seconds>(*ago).count();
  } else if (const auto seconds = parse_time_of_day(text)) {
    moment = on_that_day(now, *seconds, 0);
    if (*moment > now) moment = on_that_day(now, *seconds, -1);
  }
  if (!moment)
    return fail(registry::in_quotes(text) +
                " is not a time; write 14:05, -2h or 2026-11-28T14:05:00Z");
  if (*moment > now) return fail(registry::in_quotes(text) + " is in the future");
  return *moment;
}

std::string version_text() {
  utsname system{};
  std::string platform = "unknown system";
  if (::uname(&system) == 0)
    platform = std::string(system.sysname) + " " + std::string(system.machine);
  return "meshdnsd " MESHDNS_VERSION " (GCC " __VERSION__ ", " + platform + ")";
}

std::optional<int> parse_arguments(std::span<const char* const> argv, Arguments& arguments,
                                   std::ostream& out, std::ostream& err,
                                   std::string_view default_config) {
  TypedTexts texts;
  CLI::App app("DNS proxy and resolver for service meshes", "meshdnsd");
  app.set_version_flag("--version", version_text());
  app.require_subcommand(0, 1);
  add_config_option(app, arguments);
  add_istio_vm_option(app, arguments);
  CLI::App* run = add_command(app, arguments, Command::Run, "run", "run the daemon (the default)");
  add_istio_vm_option(*run, arguments);
  CLI::App* check = add_command(app, arguments, Command::Check, "check",
                                "validate the configuration and resources");
  add_istio_vm_option(*check, arguments);
  add_check_options(*check, arguments);
  CLI::App* explain = add_command(app, arguments, Command::Explain, "explain",
                                  "say how a query would be answered, and why");
  add_explain_options(*explain, arguments, texts);
  add_control_commands(app, arguments, texts);
  std::string explained;
  CLI::App* help = add_plain_command(app, "help", "show the usage of a command");
  help->add_option("COMMAND", explained, "command (default: all commands)");
  app.failure_message(mistake_text);

  try {
    app.parse(static_cast<int>(argv.size()), argv.data());
  } catch (const CLI::ParseError& outcome) {  // help and version, too
    return app.exit(outcome, out, err) == 0 ? 0 : kExitUsage;
  }
  if (help->parsed()) return print_help(app, explained, out, err);
  if (const auto finished = finish(arguments, texts, default_config); !finished) {
    err << "meshdnsd: " << finished.error().message << "\nRun with --help for more information.\n";
    return kExitUsage;
  }
  return std::nullopt;
}

}  // namespace meshdns::dnsd
