// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/cluster_source.hpp"

#include <algorithm>
#include <ranges>
#include <utility>

#include "registry/base/counted.hpp"
#include "registry/base/printable.hpp"
#include "registry/snapshot/stored_resource.hpp"

namespace meshdns::registry::kubernetes {
namespace {

constexpr Milliseconds kCompletePoll{500};
constexpr Milliseconds kReplanDelay{20};
constexpr std::string_view kSelectedPods = "pods[selected]@";
constexpr std::string_view kChosenNamespace = "namespaces[";
constexpr std::string_view kSidecars = "sidecars.networking.istio.io@";

// The kinds of collections with these names: "sidecars.networking.istio.io@shop".
std::set<std::string> kinds_of(const std::set<std::string>& labels) {
  std::set<std::string> kinds;
  for (const auto& label : labels) kinds.insert(label.substr(0, label.find_first_of("[@")));
  return kinds;
}

// MeshConfig told it to an earlier run: it is nobody else's Sidecars that were followed.
std::string known_root_namespace(const WatchNeeds& needs, const std::set<std::string>& labels) {
  if (!needs.root_namespace_is_set && !needs.namespaces.empty())
    for (const auto& label : labels)
      if (label.starts_with(kSidecars))
        if (std::string ns = label.substr(kSidecars.size());
            std::ranges::find(needs.namespaces, ns) == needs.namespaces.end())
          return ns;
  return needs.root_namespace;
}

// The namespace whose object alone is the collection with this label, "namespaces[shop]"; else
// empty.
std::string namespace_of_label(std::string_view label) {
  if (!label.starts_with(kChosenNamespace)) return {};
  label.remove_prefix(kChosenNamespace.size());
  return std::string(label.substr(0, label.find(']')));
}

std::string missing_text(const std::vector<std::string>& missing) {
  std::string names;
  for (const std::string& ns : missing) names += (names.empty() ? "" : ", ") + in_quotes(ns);
  if (names.empty()) return {};
  return "chosen namespaces that do not exist: " + names +
         R"(; create them, or correct "namespaces" of the configuration)";
}

// Both have the endpoints of Services.
Kind need_of(Kind kind) { return kind == Kind::Endpoints ? Kind::EndpointSlice : kind; }

}  // namespace

ClusterSource::ClusterSource(ClusterSourceOptions options, Transport& transport,
                             Scheduler& scheduler, Backoff::Random random, SourceSink& sink)
    : options_(std::move(options)),
      needs_(options_.needs),
      transport_(transport),
      scheduler_(scheduler),
      sink_(sink),
      random_(std::move(random)),
      kinds_({options_.needs.gateway_kinds.empty() ? Discovery::Groups::Usual
                                                   : Discovery::Groups::WithGateways,
              options_.discovery_poll, kinds_of(options_.known), options_.reflector},
             environment(), reach_, kind_hooks()),
      found_origin_(options_.naming.source + "/" + std::string(kNamedSlices)),
      has_found_before_(options_.known.contains(std::string(kNamedSlices))),
      slice_search_(options_.slices,
                    [this](ResourceKey&& key) { batch_.remove(found_origin_, key); }),
      probe_(transport_, scheduler_, options_.path,
             {.last_heard = [this] { return last_heard(); },
              .is_alive = [this](const PathProbe::Answer& answer) { leave_other_paths(answer); },
              .is_dead = [this](Milliseconds since) { leave_dead_paths(since); }}) {
  needs_.root_namespace = known_root_namespace(options_.needs, options_.known);
  for (const auto& label : options_.known) {
    if (label.starts_with(kSelectedPods))
      known_selections_.insert(label.substr(kSelectedPods.size()));
    seen_namespaces_.insert(namespace_of_label(label));
  }
}

ClusterSource::~ClusterSource() = default;

Reflector::Environment ClusterSource::environment() {
  return {transport_, scheduler_, parser_, server_, random_};
}

KindDiscovery::Hooks ClusterSource::kind_hooks() {
  return {.on_served = [this] { on_served(); },
          .on_answer = [this](const void* who, Trouble trouble,
                              const std::string& error) { note_reachability(who, trouble, error); },
          .on_notice =
              [this](SourceNotice notice) {
                notices_.push_back(std::move(notice));
                want_flush();
              }};
}

void ClusterSource::start() {
  probe_.start();
  kinds_.discover();
}

void ClusterSource::rescan() {
  transport_.renew_credentials();
  server_.streams_lists = true;
  kinds_.discover();
  for (const auto& [label, followed] : followed_) followed->retry_now();
  kinds_.retry_now(nullptr);
}

// --- what is followed ----------------------------------------------------------------------------

void ClusterSource::want_replan() {
  if (replan_timer_) return;
  replan_timer_ = scheduler_.after(
      kinds_.served() && followed_.empty() ? Milliseconds(0) : kReplanDelay, [this] {
        replan_timer_.reset();
        replan();
      });
}

void ClusterSource::on_served() {
  for (const auto& [label, followed] : followed_)
    followed->set_unconfirmed(kinds_.is_unconfirmed(followed->plan().resource));
  want_replan();
}

// Collections stay until what replaces them has been listed: the objects that both have would be
// gone for a moment, or for as long as the list fails.
void ClusterSource::replan() {
  if (!kinds_.served()) return;
  needs_.selected_pods = selected_pods();
  std::set<std::string> wanted;
  std::set<Kind> unlisted;
  for (auto& planned : plan_watches(needs_, *kinds_.served())) {
    wanted.insert(planned.label);
    const std::string label = planned.label;
    follow(std::move(planned));
    const FollowedCollection& followed = *followed_[label];
    if (!followed.reflector().synced) unlisted.insert(need_of(followed.plan().kind));
  }
  waits_for_lists_ = !known_selections_.empty();
  for (auto it = followed_.begin(); it != followed_.end();) {
    if (wanted.contains(it->first)) {
      ++it;
      continue;
    }
    if (is_needed_for_now(*it->second, unlisted)) {
      waits_for_lists_ = true;
      ++it;
      continue;
    }
    reach_.forget(it->second.get());
    batch_.drop(it->second->origin());
    origins_changed_ = true;
    it = followed_.erase(it);
  }
  flush();
  check_complete();
}

// Another version of the kind: the same objects, from another place.
void ClusterSource::follow(PlannedCollection&& planned) {
  auto& followed = followed_[planned.label];
  if (followed && followed->plan().collection == planned.collection &&
      followed->plan().revision == planned.revision)
    return;
  reach_.forget(followed.get());
  const bool is_unconfirmed = kinds_.is_unconfirmed(planned.resource);
  followed =
      std::make_unique<FollowedCollection>(std::move(planned), options_.naming, options_.reflector,
                                           environment(), static_cast<CollectionListener&>(*this));
  origins_changed_ = true;
  followed->set_unconfirmed(is_unconfirmed);
  followed->start();
}

bool ClusterSource::is_needed_for_now(const FollowedCollection& followed,
                                      const std::set<Kind>& unlisted) const {
  return unlisted.contains(need_of(followed.plan().kind));
}

bool ClusterSource::are_listed(Kind kind, SliceChoice slices) const {
  return std::ranges::all_of(followed_, [&](const auto& item) {
    const PlannedCollection& plan = item.second->plan();
    return plan.kind != kind || plan.slices != slices || item.second->reflector().synced;
  });
}

std::set<std::string> ClusterSource::selected_pods() {
  if (!kinds_.served()->contains("serviceentries.networking.istio.io")) {
    selectors_.clear();
    known_selections_.clear();
  }
  std::set<std::string> namespaces = known_selections_;
  for (const auto& [object, ns] : selectors_) namespaces.insert(ns);
  return namespaces;
}

void ClusterSource::on_synced(const FollowedCollection& from) {
  if (from.plan().slices == SliceChoice::Named) slice_search_.finish(scheduler_.now());
  if (from.plan().kind == Kind::EndpointSlice) want_search(options_.slices.pause);
  const bool follows_entries = std::ranges::any_of(
      followed_, [](const auto& item) { return item.second->plan().kind == Kind::ServiceEntry; });
  if (follows_entries && are_listed(Kind::ServiceEntry)) known_selections_.clear();
  if (waits_for_lists_) want_replan();
}

// The Pods that a ServiceEntry selects are followed for as long as there is such an entry.
void ClusterSource::note_selector(const Resource& resource, std::uint64_t object) {
  const auto* const entry = std::get_if<ServiceEntry>(&resource);
  if (entry == nullptr) return;
  const bool selects_pods = entry->workload_selector.has_value();
  const bool was_known = selectors_.contains(object);
  if (selects_pods == was_known) return;
  if (selects_pods)
    selectors_[object] = entry->meta.ns;
  else
    selectors_.erase(object);
  want_replan();
}

// The Sidecars of the root namespace are followed in any case.
void ClusterSource::note_root_namespace(const std::optional<std::string>& of_mesh_config) {
  if (needs_.root_namespace_is_set) return;
  const std::string& root = of_mesh_config ? *of_mesh_config : options_.needs.root_namespace;
  if (std::exchange(needs_.root_namespace, root) != root) want_replan();
}

// --- slices without their label ------------------------------------------------------------------

bool ClusterSource::searches_slices() const {
  return kinds_.served() && kinds_.served()->contains("endpointslices.discovery.k8s.io") &&
         !needs_.all_slices;
}

// At the start, the slices of all Services are there when their Services are.
void ClusterSource::note_service(const Resource& resource, std::uint64_t object) {
  const auto* const service = std::get_if<KubeService>(&resource);
  if (service == nullptr) return;
  const Milliseconds grace = complete_ ? options_.slices.grace : Milliseconds(0);
  if (slice_search_.note_service(object, *service, scheduler_.now() + grace))
    want_search(options_.slices.pause);
}

bool ClusterSource::is_wanted_slice(const FollowedCollection& from, Resource& resource,
                                    std::uint64_t object) {
  auto* const slice = std::get_if<EndpointSlice>(&resource);
  if (slice == nullptr) return true;
  slice->headless_only = !needs_.all_slices;
  const SliceChoice choice = from.plan().slices;
  const std::uint64_t service =
      hash_of({Kind::Service, slice->meta.cluster, slice->meta.ns, slice->service});
  if (choice == SliceChoice::Named)
    return slice_search_.note_found(object, service, key_of(resource));
  if (choice == SliceChoice::Labelled &&
      slice_search_.note_labelled(from.origin(), object, service, scheduler_.now()))
    want_search(options_.slices.pause);
  return true;
}

void ClusterSource::note_removal(const FollowedCollection& from, const ResourceKey& key) {
  const std::uint64_t object = hash_of(key);
  if (key.kind == Kind::Service) slice_search_.forget_service(object);
  if (from.plan().slices == SliceChoice::Labelled &&
      slice_search_.forget_labelled(from.origin(), object, scheduler_.now()))
    want_search(options_.slices.pause);
}

void ClusterSource::note_retained(const FollowedCollection& from,
                                  const std::vector<std::uint64_t>& retained) {
  const PlannedCollection& plan = from.plan();
  if (plan.kind == Kind::Service) slice_search_.retain_services(plan.ns, retained);
  if (plan.slices == SliceChoice::Labelled &&
      slice_search_.retain_labelled(from.origin(), retained, scheduler_.now()))
    want_search(options_.slices.pause);
}

void ClusterSource::want_search(Milliseconds delay) {
  const Milliseconds at = scheduler_.now() + delay;
  if (!complete_ || !searches_slices() || (search_timer_ && search_at_ <= at)) return;
  search_at_ = at;
  search_timer_ = scheduler_.after(delay, [this] {
    search_timer_.reset();
    search();
  });
}

// From a timer: the collection of the target before is destroyed.
void ClusterSource::search() {
  // Before the slices are here, every Service would be searched for.
  if (!are_listed(Kind::EndpointSlice, SliceChoice::Labelled)) return;
  const Milliseconds now = scheduler_.now();
  if (auto target = slice_search_.next(now)) {
    needs_.searched = std::move(target);
    replan();
  }
  if (has_found_before_ && slice_search_.is_done(now)) leave_found_before();
  if (const auto due = slice_search_.next_due())
    want_search(std::max(*due - now, options_.slices.pause));
}

void ClusterSource::leave_found_before() {
  has_found_before_ = false;
  origins_changed_ = true;
  batch_.retain(found_origin_, slice_search_.found());
  flush();
}

// --- the collections' news -----------------------------------------------------------------------

void ClusterSource::on_upsert(FollowedCollection& from, Resource&& resource, bool is_initial) {
  if (!is_initial) {
    const auto* const slice = std::get_if<EndpointSlice>(&resource);
    delays_.note_arrival(slice == nullptr ? 0 : slice->trigger_time_ms);
  }
  const std::uint64_t object = hash_of(key_of(resource));
  note_selector(resource, object);
  note_service(resource, object);
  if (from.plan().kind == Kind::Namespace)
    seen_namespaces_.insert(namespace_of_label(from.plan().label));
  if (const auto* const config = std::get_if<MeshConfig>(&resource))
    note_root_namespace(config->root_namespace);
  if (is_wanted_slice(from, resource, object)) batch_.upsert(from.origin(), resource);
  want_flush();
}

void ClusterSource::on_remove(FollowedCollection& from, ResourceKey&& key) {
  delays_.note_arrival(0);
  if (key.kind == Kind::ServiceEntry && selectors_.erase(hash_of(key)) > 0) want_replan();
  if (key.kind == Kind::ConfigMap) note_root_namespace({});
  note_removal(from, key);
  batch_.remove(from.origin(), key);
  want_flush();
}

void ClusterSource::on_retain(FollowedCollection& from, std::vector<std::uint64_t>&& retained) {
  if (from.plan().slices == SliceChoice::Named) {
    slice_search_.retain_found(retained);
    return want_flush();
  }
  // The origin would be one that an earlier run has seen.
  if (from.plan().kind == Kind::Namespace && retained.empty() &&
      !has_seen(namespace_of_label(from.plan().label)))
    return want_flush();
  const bool of_entries = from.plan().kind == Kind::ServiceEntry && needs_.namespaces.empty();
  if (of_entries && std::erase_if(selectors_, [&](const auto& item) {
                      return !std::ranges::binary_search(retained, item.first);
                    }) > 0)
    want_replan();
  if (from.plan().kind == Kind::ConfigMap && retained.empty()) note_root_namespace({});
  note_retained(from, retained);
  batch_.retain(from.origin(), std::move(retained));
  // At once: what comes after the list is not to be measured by it.
  flush();
}

void ClusterSource::on_findings(FollowedCollection& from) {
  batch_.touch(from.origin());
  want_flush();
}

void ClusterSource::on_state(FollowedCollection& from) {
  const ReflectorStatus& status = from.reflector();
  // The list of one Service holds no other request back.
  if (from.plan().slices != SliceChoice::Named)
    note_reachability(&from, status.trouble, status.error);
  note_failure(from);
  // The kind has gone, or was never there in the version that discovery told.
  if (status.trouble == Trouble::Absent) kinds_.doubt();
  if (status.synced && status.trouble == Trouble::None) on_synced(from);
  if (!complete_) complete_timer_ = scheduler_.after(Milliseconds(0), [this] { check_complete(); });
}

// Once, until it goes well again.
void ClusterSource::note_failure(FollowedCollection& from) {
  const ReflectorStatus& status = from.reflector();
  const std::string& label = from.plan().label;
  const bool is_search = from.plan().slices == SliceChoice::Named;
  const bool is_well = is_search ? status.synced : status.watching;
  if (is_well && status.trouble == Trouble::None) failing_.erase(label);
  const bool is_failing = status.trouble == Trouble::Failing ||
                          status.trouble == Trouble::Unauthorized ||
                          (is_search && status.trouble == Trouble::Unreachable);
  if (!is_failing || !failing_.insert(label).second) return;
  notices_.push_back({true, label + ": " + status.error + "; retrying"});
  want_flush();
}

// Complete is what has been listed as a whole, or may not be read at all.
void ClusterSource::check_complete() {
  complete_timer_.reset();
  if (complete_) return;
  const Milliseconds now = scheduler_.now();
  const bool is_settled = !followed_.empty() && !replan_timer_ && kinds_.is_settled() &&
                          std::ranges::all_of(followed_, [&](const auto& item) {
                            return item.second->is_settled(now);
                          });
  if (is_settled) {
    complete_ = origins_changed_ = true;
    std::uint64_t objects = 0;
    for (const auto& [label, followed] : followed_) objects += followed->reflector().objects;
    notices_.push_back({false, "cluster synced: " + counted(objects, "object") + " of " +
                                   counted(followed_.size(), "collection")});
    want_search(options_.slices.pause);
    return flush();
  }
  complete_timer_ = scheduler_.after(kCompletePoll, [this] { check_complete(); });
}

// --- does the connection work --------------------------------------------------------------------

// The time of the latest sign of life over the connection of watches that has been silent longest.
// Most often they share one.  After a request without an answer there are two: what is answered
// over the new one says nothing of the old one.
std::optional<Milliseconds> ClusterSource::last_heard() {
  std::set<std::uint64_t> watched;
  if (kinds_.is_watching()) watched.insert(kinds_.connection());
  for (const auto& [label, followed] : followed_)
    if (followed->reflector().watching) watched.insert(followed->reflector().connection);
  std::erase_if(server_.heard_at, [&](const auto& item) { return !watched.contains(item.first); });
  if (!server_.multiplexes || server_.heard_at.empty()) return std::nullopt;
  return std::ranges::min(server_.heard_at | std::views::values);
}

void ClusterSource::leave_other_paths(const PathProbe::Answer& answer) {
  server_.heard_at[answer.connection] = scheduler_.now();
  leave_paths_silent_since(answer.silent_since, answer.connection);
}

void ClusterSource::leave_dead_paths(Milliseconds silent_since) {
  notices_.push_back({true,
                      "the connection to the API server brings no answers any more; continuing "
                      "over a new one"});
  want_flush();
  transport_.distrust_connections();
  leave_paths_silent_since(silent_since, std::nullopt);
}

// All at once: a path that is dead is most often that of all connections.
void ClusterSource::leave_paths_silent_since(Milliseconds when,
                                             std::optional<std::uint64_t> working) {
  for (const auto& [label, followed] : followed_) followed->leave_path_silent_since(when, working);
  kinds_.leave_path_silent_since(when, working);
}

// --- is the server there -------------------------------------------------------------------------

void ClusterSource::note_reachability(const void* who, Trouble trouble, const std::string& error) {
  using Silence = ServerReach::Silence;
  const Silence silence = transport_.has_asked() ? Silence::Unanswered : Silence::Unasked;
  const ServerReach::Change change = reach_.note(who, trouble, error, scheduler_.now(), silence);
  if (change == ServerReach::Change::None) return;
  want_flush();
  if (change == ServerReach::Change::Lost)
    notices_.push_back({true, (silence == Silence::Unasked ? "the API server cannot be asked: "
                                                           : "the API server does not answer: ") +
                                  error});
  if (change != ServerReach::Change::Regained) return;
  notices_.push_back({false, "the API server answers again"});
  probe_.suspect();
  for (const auto& [label, followed] : followed_)
    if (followed.get() != who) followed->retry_now();
  kinds_.retry_now(who);
}

// --- handing over --------------------------------------------------------------------------------

void ClusterSource::want_flush() {
  if (batch_.size() >= options_.batch_objects) return flush();
  if (flush_timer_) return;
  const Milliseconds due = flushed_at_ + options_.batch_delay - scheduler_.now();
  flush_timer_ =
      scheduler_.after(std::clamp(due, Milliseconds(0), options_.batch_delay), [this] { flush(); });
}

void ClusterSource::flush() {
  flush_timer_.reset();
  flushed_at_ = scheduler_.now();
  SourceBatch batch;
  batch.source = options_.naming.source;
  batch.changes = batch_.take();
  batch.complete = complete_;
  batch.lacks_endpoints = complete_ && lacks_endpoints();
  note_missing_namespaces();
  batch.lacks_policies = complete_ && lacks_policies();
  batch.notices = std::exchange(notices_, {});
  changes_ += batch.changes.size();
  for (auto& change : batch.changes)
    for (const auto& [label, followed] : followed_)
      if (followed->origin() == change.origin) change.findings = followed->findings();
  if (complete_ && std::exchange(origins_changed_, false)) {
    batch.origins.emplace();
    for (const auto& [label, followed] : followed_) batch.origins->push_back(followed->origin());
    if (has_found_before_ && searches_slices()) batch.origins->push_back(found_origin_);
  }
  const auto arrivals = delays_.take_arrivals();
  sink_.apply(std::move(batch));
  delays_.note_applied(arrivals);
}

// Null: it is not followed yet.
const FollowedCollection* ClusterSource::followed_namespace(const std::string& ns) const {
  const auto followed = followed_.find(std::string(kChosenNamespace) + ns + "]");
  return followed == followed_.end() ? nullptr : followed->second.get();
}

// A namespace that may not be read is not known to be missing.
std::vector<std::string> ClusterSource::missing_namespaces() const {
  std::vector<std::string> missing;
  if (needs_.namespaces_are_shared) return missing;
  for (const auto& ns : needs_.namespaces) {
    const FollowedCollection* const followed = followed_namespace(ns);
    if (followed == nullptr) continue;
    const ReflectorStatus& status = followed->reflector();
    if (status.synced && status.objects == 0) missing.push_back(ns);
  }
  return missing;
}

// Also before the first list: a restart or a reload makes no daemon ready for a moment.  But while
// the API server cannot be asked, the state of an earlier run does: that may have been refused.
bool ClusterSource::awaits_namespace() const {
  if (needs_.namespaces_are_shared) return false;
  return std::ranges::any_of(needs_.namespaces, [this](const std::string& ns) {
    if (has_seen(ns)) return false;
    const FollowedCollection* const followed = followed_namespace(ns);
    if (followed != nullptr && followed->reflector().synced) return true;
    const bool is_refused = followed != nullptr && followed->is_settled(scheduler_.now());
    return !is_refused && (options_.known.empty() || last_error().empty());
  });
}

void ClusterSource::note_missing_namespaces() {
  if (!complete_) return;
  std::string missing = missing_text(missing_namespaces());
  if (missing == missing_) return;
  if (!missing.empty()) notices_.push_back({true, missing});
  missing_ = std::move(missing);
}

bool ClusterSource::lacks_endpoints() const {
  return std::ranges::any_of(followed_, [](const auto& item) {
    const Kind kind = item.second->plan().kind;
    // The list of one Service most often has nothing to show.
    const bool is_of_endpoints = (kind == Kind::EndpointSlice || kind == Kind::Endpoints) &&
                                 item.second->plan().slices != SliceChoice::Named;
    return is_of_endpoints && !item.second->reflector().synced;
  });
}

bool ClusterSource::lacks_policies() const {
  return std::ranges::any_of(followed_, [](const auto& item) {
    const Kind kind = item.second->plan().kind;
    return (kind == Kind::Sidecar || kind == Kind::ConfigMap) && !item.second->reflector().synced;
  });
}

std::string ClusterSource::last_error() const {
  if (const std::string error = reach_.error(scheduler_.now()); !error.empty()) return error;
  if (!kinds_.served() && !kinds_.error().empty()) return kinds_.error();
  for (const auto& [label, followed] : followed_) {
    if (followed->is_troubled()) return label + ": " + followed->trouble();
  }
  return missing_text(missing_namespaces());
}

SourceStatus ClusterSource::status() const {
  const Milliseconds now = scheduler_.now();
  SourceStatus status;
  status.name = options_.naming.source;
  status.complete = complete_;
  status.last_error = last_error();
  status.awaits_namespace = awaits_namespace();
  status.changes = changes_;
  ClusterStatus cluster;
  cluster.reachable = reach_.is_reached();
  for (const auto& [label, followed] : followed_) {
    CollectionStatus collection = followed->status(now);
    status.origins += collection.synced ? 1 : 0;
    status.broken += followed->is_troubled() ? 1 : 0;
    status.reads += collection.lists;
    cluster.collections.push_back(std::move(collection));
  }
  cluster.from_arrival = delays_.from_arrival();
  cluster.from_trigger = delays_.from_trigger();
  status.cluster = std::move(cluster);
  return status;
}

}  // namespace meshdns::registry::kubernetes
