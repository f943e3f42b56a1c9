// SPDX-License-Identifier: Apache-2.0
// Intrusive reference counting for the shared parts of snapshots.  std::shared_ptr would cost 32
// octets more per object, which at 100,000 names is a twelfth of the whole budget.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace meshdns {

// Base of shared immutable objects.  The derived class provides `static void destroy(const T*)`
// when it is not simply deleted.
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  void add_ref() const { references_.fetch_add(1, std::memory_order_relaxed); }
  // True when this was the last one.
  bool drop_ref() const { return references_.fetch_sub(1, std::memory_order_acq_rel) == 1; }
  // Returns whether the caller has the only reference, so that it may change the object in place.
  bool is_unique() const { return references_.load(std::memory_order_acquire) == 1; }

 protected:
  ~RefCounted() = default;

 private:
  mutable std::atomic<std::uint32_t> references_{0};
};

// Owner of one reference to a RefCounted object; null by default.
template <typename T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}  // NOLINT(google-explicit-constructor): null is a Ref
  explicit Ref(T* object) : object_(object) {
    if (object_ != nullptr) object_->add_ref();
  }
  Ref(const Ref& other) : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <typename U>
    requires std::is_convertible_v<U*, T*>
  Ref(const Ref<U>& other) : Ref(static_cast<T*>(other.get())) {}  // NOLINT
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr && object_->drop_ref()) destroy(object_);
  }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  friend bool operator==(const Ref& a, const Ref& b) { return a.object_ == b.object_; }

 private:
  static void destroy(T* object) {
    if constexpr (requires { T::destroy(object); })
      T::destroy(object);
    else
      delete object;
  }

  T* object_ = nullptr;
};

}  // namespace meshdns
