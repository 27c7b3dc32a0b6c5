// A libcupti for tests that records nothing by itself: the test calls FakeCall and FakeKernel in place
// of the driver. With FAKE_CUPTI_BUSY in the environment it already has a subscriber.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include <cupti.h>

namespace {

CUpti_CallbackFunc callback;
CUpti_BuffersCallbackRequestFunc request;
CUpti_BuffersCallbackCompleteFunc complete;
bool enabled[1024];
bool records_kernels;

}  // namespace

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

FAKE_EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc function,
                                       void*) {
  if (getenv("FAKE_CUPTI_BUSY") != nullptr) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  callback = function;
  *handle = reinterpret_cast<CUpti_SubscriberHandle>(&callback);
  return CUPTI_SUCCESS;
}

FAKE_EXPORT CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle,
                                            CUpti_CallbackDomain domain, CUpti_CallbackId id) {
  if (domain != CUPTI_CB_DOMAIN_DRIVER_API) return CUPTI_ERROR_INVALID_PARAMETER;
  enabled[id % 1024] = enable != 0;
  return CUPTI_SUCCESS;
}

FAKE_EXPORT CUptiResult cuptiActivityRegisterCallbacks(
    CUpti_BuffersCallbackRequestFunc requested,
    CUpti_BuffersCallbackCompleteFunc completed) {
  request = requested;
  complete = completed;
  return CUPTI_SUCCESS;
}

FAKE_EXPORT CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  records_kernels = kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  return CUPTI_SUCCESS;
}

FAKE_EXPORT CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid,
                                                   CUpti_Activity** record) {
  auto* next = *record == nullptr ? buffer
                                  : reinterpret_cast<uint8_t*>(*record) +
                                        sizeof(CUpti_ActivityKernel10);
  if (next + sizeof(CUpti_ActivityKernel10) > buffer + valid) {
    return CUPTI_ERROR_MAX_LIMIT_REACHED;
  }
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}

FAKE_EXPORT CUptiResult cuptiActivityFlushAll(uint32_t) { return CUPTI_SUCCESS; }

FAKE_EXPORT CUptiResult cuptiGetResultString(CUptiResult, const char** text) {
  *text = "a fake reason";
  return CUPTI_SUCCESS;
}

/// Acts as if the driver were called. False: nobody asked for that callback.
FAKE_EXPORT bool FakeCall(uint32_t id, const void* params, const char* name,
                          uint32_t correlation) {
  if (callback == nullptr || !enabled[id % 1024]) return false;
  CUpti_CallbackData data{};
  data.callbackSite = CUPTI_API_ENTER;
  data.functionParams = params;
  data.symbolName = name;
  data.correlationId = correlation;
  callback(nullptr, CUPTI_CB_DOMAIN_DRIVER_API, id, &data);
  data.callbackSite = CUPTI_API_EXIT;
  callback(nullptr, CUPTI_CB_DOMAIN_DRIVER_API, id, &data);
  return true;
}

/// Acts as if two kernels had run: one that nobody launched, and this one.
FAKE_EXPORT bool FakeKernel(uint32_t correlation, uint64_t start, uint64_t end) {
  if (!records_kernels || request == nullptr) return false;
  uint8_t* buffer = nullptr;
  size_t bytes = 0, most = 0;
  request(&buffer, &bytes, &most);
  const size_t valid = 2 * sizeof(CUpti_ActivityKernel10);
  if (bytes < valid) return false;
  auto* kernels = new (buffer) CUpti_ActivityKernel10[2]{};
  for (int i = 0; i < 2; ++i) {
    kernels[i].kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    kernels[i].correlationId = correlation + (i == 0 ? 1'000'000 : 0);
    kernels[i].start = start;
    kernels[i].end = end;
  }
  complete(nullptr, 0, buffer, bytes, valid);
  return true;
}
