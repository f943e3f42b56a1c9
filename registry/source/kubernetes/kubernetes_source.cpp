// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/kubernetes_source.hpp"

#include <utility>

#include "registry/source/kubernetes/api_client.hpp"
#include "registry/source/kubernetes/cluster_source.hpp"

namespace meshdns::registry {
namespace {

using namespace kubernetes;  // NOLINT(google-build-using-namespace): of this file's own subject

// The parts of the time in which a dead path is left: 25 s until it is asked whether it still works
// and 15 s for the answer, of 45 s.
PathProbe::Limits probe_limits(Milliseconds timeout) {
  return {.silence = timeout * 5 / 9, .answer = timeout / 3};
}

void limit_silence(ReflectorOptions& options, Milliseconds timeout) {
  options.lone_silence_limit = timeout * 8 / 9;
  options.lone_watch_timeout = timeout * 5 / 9;
  options.answer_limit = timeout * 4 / 9;
  options.watch_answer_limit = timeout / 3;
}

PathLimits path_limits(Milliseconds timeout) {
  using std::chrono::seconds;
  const auto part = [&](int ninths) {
    return std::max(std::chrono::duration_cast<seconds>(timeout * ninths / 9), seconds(1));
  };
  return {.keep_alive_idle = part(2),
          .keep_alive_interval = part(1),
          .unacknowledged = timeout * 4 / 9};
}

ClusterSourceOptions source_options(KubernetesSourceOptions&& from) {
  ClusterSourceOptions options;
  for (const auto& origin : from.known_origins)
    if (origin.starts_with(from.name + "/"))
      options.known.insert(origin.substr(from.name.size() + 1));
  options.path = probe_limits(from.path_timeout);
  limit_silence(options.reflector, from.path_timeout);
  options.naming = {std::move(from.name), std::move(from.cluster), std::move(from.network),
                    from.needs.gateway_kinds};
  options.needs = std::move(from.needs);
  return options;
}

// The parts of a source in the order in which they need each other.
class KubernetesSource final : public Source {
 public:
  KubernetesSource(uv_loop_s* loop, KubernetesSourceOptions options, ServerLookup& servers,
                   SourceSink& sink)
      : sink_(sink),
        name_(options.name),
        scheduler_(make_uv_scheduler(loop)),
        client_(
            loop, *scheduler_, servers, path_limits(options.path_timeout),
            [kubeconfig = options.kubeconfig] {
              return kubeconfig.empty() ? in_cluster_access() : read_kubeconfig(kubeconfig);
            },
            [this] { source_.rescan(); }),
        source_(source_options(std::move(options)), client_, *scheduler_, make_random(), sink) {}

  void start() override {
    source_.start();
    // Not from within this call, as all that the sink hears.
    if (client_.is_unverified()) warning_ = scheduler_->after(Milliseconds(0), [this] { warn(); });
  }
  void rescan() override { source_.rescan(); }
  SourceStatus status() const override { return source_.status(); }

 private:
  void warn() {
    SourceBatch batch;
    batch.source = name_;
    batch.notices.push_back(
        {true,
         "insecure-skip-tls-verify is set: an attacker on the path to the API server can "
         "change all names and read the token; give the certificate-authority instead"});
    sink_.apply(std::move(batch));
  }

  SourceSink& sink_;
  const std::string name_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<Timer> warning_;
  ApiClient client_;
  ClusterSource source_;
};

}  // namespace

std::unique_ptr<Source> make_kubernetes_source(uv_loop_s* loop, KubernetesSourceOptions options,
                                               ServerLookup& servers, SourceSink& sink) {
  return std::make_unique<KubernetesSource>(loop, std::move(options), servers, sink);
}

}  // namespace meshdns::registry
