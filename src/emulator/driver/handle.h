// The valid handles of a kind: a call with any other value returns an error, as with a real driver.
#pragma once

#include <mutex>
#include <unordered_set>

namespace fp4lab::emu::driver {

// A member of the object that a handle points to.
template <class T>
class Handle {
 public:
  explicit(false) Handle(T* of) : of_(of) {
    std::lock_guard lock(mutex());
    all().insert(of);
  }
  ~Handle() {
    std::lock_guard lock(mutex());
    all().erase(of_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  static bool exists(const T* handle) {
    std::lock_guard lock(mutex());
    return all().contains(handle);
  }

 private:
  // Never destroyed: programs call the driver from their own static destructors.
  static std::mutex& mutex() {
    static auto* m = new std::mutex;
    return *m;
  }
  static std::unordered_set<const T*>& all() {
    static auto* set = new std::unordered_set<const T*>;
    return *set;
  }

  const T* of_;
};

template <class T>
bool exists(const T* handle) {
  return Handle<T>::exists(handle);
}

}  // namespace fp4lab::emu::driver
