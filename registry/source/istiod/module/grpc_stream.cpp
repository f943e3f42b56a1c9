// SPDX-License-Identifier: Apache-2.0
// The module: streams over gRPC.  Each has one thread, which does one operation after the other:
// it connects, sends the request, and then reads a response, has it taken over and replies.  gRPC's
// own threads wait for the sockets.
#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/channel_arguments.h>
#include <pthread.h>

#include <chrono>
#include <csignal>
#include <mutex>
#include <thread>

#include "registry/source/istiod/module/ads_session.hpp"

namespace meshdns::registry::istiod {
namespace {

using namespace std::chrono_literals;

// A path that has died is found after 28 s.  istiod closes connections of clients that ping more
// often than every 15 s.
constexpr auto kKeepaliveTime = 20s;
constexpr auto kKeepaliveTimeout = 8s;
constexpr auto kAddressTimeout = 5s;   // for one address
constexpr auto kConnectTimeout = 20s;  // for all of them
constexpr auto kConnectPoll = 100ms;
// 100,000 names take about 10 MB.  The same limit as for files.
constexpr int kMaxResponse = 64 << 20;

template <typename Duration>
int milliseconds_of(Duration duration) {
  return static_cast<int>(std::chrono::milliseconds(duration).count());
}

grpc::ChannelArguments channel_arguments(const AdsOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetSslTargetNameOverride(options.server_name);
  arguments.SetUserAgentPrefix("meshdns/" MESHDNS_VERSION);
  arguments.SetMaxReceiveMessageSize(kMaxResponse);
  // A message may become a thousand times as large when it is inflated, and gRPC checks its size
  // before.  istiod compresses nothing.
  arguments.SetInt(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE);
  arguments.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, milliseconds_of(kKeepaliveTime));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, milliseconds_of(kKeepaliveTimeout));
  // A mesh may be quiet for hours; gRPC sends only two pings without data otherwise.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, milliseconds_of(kAddressTimeout));
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // The source decides when to connect again, and with which files.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return arguments;
}

std::shared_ptr<grpc::Channel> make_channel(const AdsOptions& options, const std::string& target) {
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = options.ca_pem;
  tls.pem_cert_chain = options.cert_pem;
  tls.pem_private_key = options.key_pem;
  return grpc::CreateCustomChannel(target, grpc::SslCredentials(tls), channel_arguments(options));
}

grpc::ByteBuffer buffer_of(const std::string& text) {
  const grpc::Slice slice(text);
  return {&slice, 1};
}

// Signals are for the control thread.  gRPC's threads inherit the mask of the one that starts them.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

class GrpcStream final : public AdsStream {
 public:
  GrpcStream(AdsOptions options, AdsListener& listener)
      : options_(std::move(options)), session_(options_), listener_(listener) {
    const SignalsBlocked blocked;
    thread_ = std::thread([this] { run(); });
  }
  ~GrpcStream() override {
    {
      const std::lock_guard lock(mutex_);
      is_cancelled_ = true;
      if (context_) context_->TryCancel();
    }
    thread_.join();
  }
  GrpcStream(const GrpcStream&) = delete;
  GrpcStream& operator=(const GrpcStream&) = delete;

 private:
  using Call = grpc::GenericClientAsyncReaderWriter;

  void run() {
    pthread_setname_np(pthread_self(), "istiod");
    grpc::CompletionQueue queue;
    const std::string why = converse(queue);
    queue.Shutdown();
    for (void* tag = nullptr; bool good = queue.Next(&tag, &good);) {
    }
    if (!is_cancelled()) listener_.on_end(why);
  }

  std::string converse(grpc::CompletionQueue& queue) {
    const auto end = std::chrono::system_clock::now() + kConnectTimeout;
    std::shared_ptr<grpc::Channel> channel;
    bool is_connected = false;
    for (const std::string& target : options_.targets) {
      channel = make_channel(options_, target);
      is_connected = connect(*channel, queue, end);
      if (is_connected || is_cancelled()) break;
    }
    if (is_cancelled() || !channel) return {};
    if (!is_connected && channel->GetState(false) == GRPC_CHANNEL_CONNECTING)
      return "no connection within 20 s";
    if (is_connected) listener_.on_connected();
    grpc::ClientContext& context = begin_context();
    grpc::GenericStub stub(channel);
    const std::unique_ptr<Call> call = stub.PrepareCall(&context, session_.method(), &queue);
    call->StartCall(this);
    if (wait(queue) && write(*call, queue, session_.first_request()))
      while (exchange(*call, queue)) {
      }
    grpc::Status status;
    call->Finish(&status, this);
    wait(queue);
    return why_ended(status);
  }

  // False when there is an error, which the call tells, and when it takes too long.
  bool connect(grpc::Channel& channel, grpc::CompletionQueue& queue,
               std::chrono::system_clock::time_point end) const {
    for (;;) {
      const grpc_connectivity_state state = channel.GetState(true);
      if (state == GRPC_CHANNEL_READY) return true;
      const auto now = std::chrono::system_clock::now();
      if (state == GRPC_CHANNEL_TRANSIENT_FAILURE || now >= end || is_cancelled()) return false;
      channel.NotifyOnStateChange(state, now + kConnectPoll, &queue, nullptr);
      wait(queue);
    }
  }

  grpc::ClientContext& begin_context() {
    const std::lock_guard lock(mutex_);
    context_ = std::make_unique<grpc::ClientContext>();
    if (!options_.token.empty()) context_->AddMetadata("authorization", "Bearer " + options_.token);
    // istiod asks the cluster that has issued the token.
    if (!options_.node.cluster.empty()) context_->AddMetadata("clusterid", options_.node.cluster);
    if (is_cancelled_) context_->TryCancel();
    return *context_;
  }

  // One response and the reply to it.  False at the end of the stream.
  bool exchange(Call& call, grpc::CompletionQueue& queue) {
    grpc::ByteBuffer buffer;
    call.Read(&buffer, this);
    if (!wait(queue)) return false;
    grpc::Slice message;
    if (!buffer.TrySingleSlice(&message).ok() && !buffer.DumpToSingleSlice(&message).ok()) {
      context_->TryCancel();
      return false;
    }
    buffer.Clear();
    const AdsResponse response =
        session_.read({reinterpret_cast<const char*>(message.begin()), message.size()});
    const auto refusal = take(response);
    return !is_cancelled() && write(call, queue, session_.reply(response, refusal));
  }

  std::optional<std::string> take(const AdsResponse& response) {
    if (!response.fault) return listener_.on_push(response.push, *reader_);
    listener_.on_unreadable(*response.fault, response.push.bytes);
    return response.fault;
  }

  bool write(Call& call, grpc::CompletionQueue& queue, const std::string& message) {
    call.Write(buffer_of(message), this);
    return wait(queue);
  }

  // Waits for the one operation that is under way.
  static bool wait(grpc::CompletionQueue& queue) {
    void* tag = nullptr;
    bool good = false;
    return queue.Next(&tag, &good) && good;
  }

  bool is_cancelled() const {
    const std::lock_guard lock(mutex_);
    return is_cancelled_;
  }

  static std::string why_ended(const grpc::Status& status) {
    if (status.ok()) return "istiod has ended the stream";
    if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED)
      return "istiod refuses the credentials: " + status.error_message() +
             "; replace the token or the certificate if it has expired";
    return status.error_message();
  }

  const AdsOptions options_;
  AdsSession session_;  // the stream's thread, as is reader_
  const std::unique_ptr<MessageReader> reader_ = make_message_reader();
  AdsListener& listener_;
  mutable std::mutex mutex_;
  bool is_cancelled_ = false;                     // guarded by mutex_
  std::unique_ptr<grpc::ClientContext> context_;  // made and cancelled under mutex_
  std::thread thread_;
};

void prepare_grpc() {
  const SignalsBlocked blocked;
  // gRPC writes to standard error; the end of each stream has the reason already.
  gpr_set_log_function([](gpr_log_func_args*) {});
  // Never shut down: gRPC does that in a thread that may outlive main().
  grpc_init();
}

}  // namespace
}  // namespace meshdns::registry::istiod

extern "C" {
// NOLINTNEXTLINE(readability-identifier-naming): the name of a symbol, which the daemon looks up
__attribute__((visibility("default"))) extern const char meshdns_istiod_version[];
const char meshdns_istiod_version[] = MESHDNS_VERSION;  // NOLINT(readability-identifier-naming)

__attribute__((visibility("default"))) meshdns::registry::istiod::AdsStream* meshdns_istiod_open(
    meshdns::registry::istiod::AdsOptions options,
    meshdns::registry::istiod::AdsListener& listener) {
  using namespace meshdns::registry::istiod;
  static std::once_flag once;
  std::call_once(once, prepare_grpc);
  return new GrpcStream(std::move(options), listener);
}
}
