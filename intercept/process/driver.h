// The real driver: opened once, at the process's first CUDA call, never closed. Thread-safe.
#pragma once

namespace cupola::intercept {

/// Opens the driver and fills cupola_real, once. Needs little of the caller's stack. Holds no lock of ours while
/// the dynamic linker works: another thread may be inside a constructor that calls CUDA. Two threads that arrive
/// together both do it, with the same result. Returns false when there is no driver.
bool OpenDriver() noexcept;

/// True once OpenDriver has found a driver.
bool IsDriverOpen() noexcept;

/// True once OpenDriver has found that of the simulated device, which runs nothing but PTX.
bool IsDriverSimulated() noexcept;

/// True for functions that stand in for what a driver lacks (see calls.h).
bool IsStandIn(const void* function) noexcept;

/// Whether the door was preloaded (process/door.h). Without it nothing but the driver's calls happens.
bool HasDoor() noexcept;

}  // namespace cupola::intercept
