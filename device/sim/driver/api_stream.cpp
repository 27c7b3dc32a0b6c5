// The calls cuStream* (but for those of capture) and cuEvent*.
#include "device/sim/driver/api.h"

using namespace cupola::sim;  // NOLINT

namespace {

CUresult FindEvent(Driver& driver, CUevent handle, std::shared_ptr<Event>* event) {
  *event = driver.events.Find(handle);
  return *event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult MemOps(DefaultStream null_means, CUstream handle,
                std::vector<CUstreamBatchMemOpParams> ops) {
  Driver* driver;
  Context* context;
  std::shared_ptr<Stream> stream;
  SIM_TRY(Enter(&driver, &context, handle, null_means, &stream));
  for (const CUstreamBatchMemOpParams& op : ops) {
    uint64_t bytes = 4;
    switch (op.operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      case CU_STREAM_MEM_OP_WRITE_VALUE_64: bytes = 8; break;
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      case CU_STREAM_MEM_OP_WRITE_VALUE_32: break;
      case CU_STREAM_MEM_OP_BARRIER:
      case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES: continue;
      default: return CUDA_ERROR_INVALID_VALUE;
    }
    const CUdeviceptr address = op.waitValue.address;  // the same place in every operation
    if (address % bytes != 0 || !driver->memory().Holds(address, bytes)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return driver->Enqueue(*stream, MemOpsWork{std::move(ops)});
}

CUstreamBatchMemOpParams MemOp(CUstreamBatchMemOpType operation, CUdeviceptr address,
                               uint64_t value, unsigned int flags) {
  CUstreamBatchMemOpParams op{};
  op.operation = operation;
  const bool is_wait = operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
                       operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
  if (is_wait) {
    op.waitValue.address = address;
    op.waitValue.value64 = value;
    op.waitValue.flags = flags;
  } else {
    op.writeValue.address = address;
    op.writeValue.value64 = value;
    op.writeValue.flags = flags;
  }
  return op;
}

}  // namespace

SIM_EXPORT CUresult cuStreamCreateWithPriority(CUstream* handle, unsigned int flags, int priority) {
  Driver* driver;
  Context* context;
  SIM_TRY(Enter(&driver, &context));
  if (handle == nullptr || (flags & ~unsigned{CU_STREAM_NON_BLOCKING}) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int clamped = priority > 0 ? 0 : priority < -5 ? -5 : priority;
  *handle = reinterpret_cast<CUstream>(driver->CreateStream(*context, flags, clamped).get());
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuStreamCreate(CUstream* handle, unsigned int flags) {
  return cuStreamCreateWithPriority(handle, flags, 0);
}

SIM_EXPORT CUresult cuStreamDestroy_v2(CUstream handle) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  return driver->DestroyStream(handle);
}
SIM_EXPORT CUresult cuStreamDestroy(CUstream handle) { return cuStreamDestroy_v2(handle); }

#define SIM_STREAM_GETTER(symbol, type, expression)                              \
  SIM_CALL_BOTH(symbol, _ptsz, (CUstream handle, type * value), (handle, value)) { \
    Driver* driver;                                                              \
    Context* context;                                                            \
    std::shared_ptr<Stream> stream;                                              \
    SIM_TRY(Enter(&driver, &context, handle, null_means, &stream));              \
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;                       \
    *value = expression;                                                         \
    return CUDA_SUCCESS;                                                         \
  }

SIM_STREAM_GETTER(cuStreamGetPriority, int, stream->priority)
SIM_STREAM_GETTER(cuStreamGetFlags, unsigned int, stream->flags)
SIM_STREAM_GETTER(cuStreamGetId, unsigned long long, stream->id)
SIM_STREAM_GETTER(cuStreamGetDevice, CUdevice, 0)
SIM_STREAM_GETTER(cuStreamGetCtx, CUcontext, reinterpret_cast<CUcontext>(stream->context))

SIM_CALL_BOTH(cuStreamGetCtx_v2, _ptsz,
              (CUstream handle, CUcontext* context_out, CUgreenCtx* green_out),
              (handle, context_out, green_out)) {
  SIM_TRY(cuStreamGetCtx_body(null_means, handle, context_out));
  if (reinterpret_cast<const Context*>(*context_out)->is_green) {
    SayLacks("cuStreamGetCtx_v2 of a stream of a green context");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (green_out != nullptr) *green_out = nullptr;
  return CUDA_SUCCESS;
}

// No attribute of a stream can be set, so each has its first value.
SIM_CALL_BOTH(cuStreamGetAttribute, _ptsz,
              (CUstream handle, CUstreamAttrID attribute, CUstreamAttrValue* value),
              (handle, attribute, value)) {
  Driver* driver;
  Context* context;
  std::shared_ptr<Stream> stream;
  SIM_TRY(Enter(&driver, &context, handle, null_means, &stream));
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *value = CUstreamAttrValue{};
  switch (attribute) {
    case CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW: return CUDA_SUCCESS;
    case CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      value->syncPolicy = CU_SYNC_POLICY_AUTO;
      return CUDA_SUCCESS;
    case CU_STREAM_ATTRIBUTE_PRIORITY: value->priority = stream->priority; return CUDA_SUCCESS;
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}

SIM_CALL_BOTH(cuStreamSynchronize, _ptsz, (CUstream handle), (handle)) {
  Driver* driver;
  Context* context;
  std::shared_ptr<Stream> stream;
  SIM_TRY(Enter(&driver, &context, handle, null_means, &stream));
  return driver->Synchronize(*stream);
}

SIM_CALL_BOTH(cuStreamQuery, _ptsz, (CUstream handle), (handle)) {
  Driver* driver;
  Context* context;
  std::shared_ptr<Stream> stream;
  SIM_TRY(Enter(&driver, &context, handle, null_means, &stream));
  return driver->Query(*stream);
}

SIM_CALL_BOTH(cuStreamWaitEvent, _ptsz, (CUstream handle, CUevent event_handle, unsigned int flags),
              (handle, event_handle, flags)) {
  Driver* driver;
  Context* context;
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Event> event;
  SIM_TRY(Enter(&driver, &context, handle, null_means, &stream));
  SIM_TRY(FindEvent(*driver, event_handle, &event));
  if (flags > CU_EVENT_WAIT_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  return driver->WaitFor(*stream, *event, flags);
}

SIM_CALL_BOTH(cuLaunchHostFunc, _ptsz, (CUstream handle, CUhostFn function, void* data),
              (handle, function, data)) {
  Driver* driver;
  Context* context;
  std::shared_ptr<Stream> stream;
  SIM_TRY(Enter(&driver, &context, handle, null_means, &stream));
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  HostWork work;
  work.function = function;
  work.data = data;
  return driver->Enqueue(*stream, work);
}

SIM_CALL_BOTH(cuStreamAddCallback, _ptsz,
              (CUstream handle, CUstreamCallback callback, void* data, unsigned int flags),
              (handle, callback, data, flags)) {
  Driver* driver;
  Context* context;
  std::shared_ptr<Stream> stream;
  SIM_TRY(Enter(&driver, &context, handle, null_means, &stream));
  if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  HostWork work;
  work.callback = callback;
  work.stream = handle;
  work.data = data;
  return driver->Enqueue(*stream, work);
}

SIM_CALL_BOTH(cuStreamAttachMemAsync, _ptsz,
              (CUstream handle, CUdeviceptr address, size_t bytes, unsigned int flags),
              (handle, address, bytes, flags)) {
  Driver* driver;
  Context* context;
  std::shared_ptr<Stream> stream;
  SIM_TRY(Enter(&driver, &context, handle, null_means, &stream));
  const std::optional<Allocation> found = driver->memory().Find(address);
  if (!found || found->kind != MemoryKind::kManaged) return CUDA_ERROR_INVALID_VALUE;
  return driver->Enqueue(*stream, EmptyWork{});
}

SIM_CALL_BOTH(cuStreamCopyAttributes, _ptsz, (CUstream to, CUstream from), (to, from)) {
  Driver* driver;
  Context* context;
  std::shared_ptr<Stream> stream;
  SIM_TRY(Enter(&driver, &context, to, null_means, &stream));
  return Enter(&driver, &context, from, null_means, &stream);
}

// cuStreamWaitValue32 and its relatives. The first version of each and its _v2 do the same here.
#define SIM_VALUE_CALL(symbol, value_type, operation)                                            \
  SIM_CALL_BOTH(symbol, _ptsz,                                                                   \
                (CUstream handle, CUdeviceptr address, value_type value, unsigned int flags),    \
                (handle, address, value, flags)) {                                               \
    return MemOps(null_means, handle, {MemOp(operation, address, value, flags)});                \
  }

SIM_VALUE_CALL(cuStreamWaitValue32, cuuint32_t, CU_STREAM_MEM_OP_WAIT_VALUE_32)
SIM_VALUE_CALL(cuStreamWaitValue32_v2, cuuint32_t, CU_STREAM_MEM_OP_WAIT_VALUE_32)
SIM_VALUE_CALL(cuStreamWaitValue64, cuuint64_t, CU_STREAM_MEM_OP_WAIT_VALUE_64)
SIM_VALUE_CALL(cuStreamWaitValue64_v2, cuuint64_t, CU_STREAM_MEM_OP_WAIT_VALUE_64)
SIM_VALUE_CALL(cuStreamWriteValue32, cuuint32_t, CU_STREAM_MEM_OP_WRITE_VALUE_32)
SIM_VALUE_CALL(cuStreamWriteValue32_v2, cuuint32_t, CU_STREAM_MEM_OP_WRITE_VALUE_32)
SIM_VALUE_CALL(cuStreamWriteValue64, cuuint64_t, CU_STREAM_MEM_OP_WRITE_VALUE_64)
SIM_VALUE_CALL(cuStreamWriteValue64_v2, cuuint64_t, CU_STREAM_MEM_OP_WRITE_VALUE_64)

SIM_CALL_BOTH(cuStreamBatchMemOp_v2, _ptsz,
              (CUstream handle, unsigned int count, CUstreamBatchMemOpParams* ops,
               unsigned int flags),
              (handle, count, ops, flags)) {
  if (ops == nullptr || count > 256 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return MemOps(null_means, handle, {ops, ops + count});
}
SIM_CALL_BOTH(cuStreamBatchMemOp, _ptsz,
              (CUstream handle, unsigned int count, CUstreamBatchMemOpParams* ops,
               unsigned int flags),
              (handle, count, ops, flags)) {
  return cuStreamBatchMemOp_v2_body(null_means, handle, count, ops, flags);
}

SIM_EXPORT CUresult cuEventCreate(CUevent* handle, unsigned int flags) {
  Driver* driver;
  Context* context;
  SIM_TRY(Enter(&driver, &context));
  constexpr unsigned int kKnown =
      CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  if (handle == nullptr || (flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & CU_EVENT_INTERPROCESS) != 0) {
    SayLacks("cuEventCreate with CU_EVENT_INTERPROCESS");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  *handle = reinterpret_cast<CUevent>(
      driver->events.Add(std::make_shared<Event>(context, flags)));
  return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuEventDestroy_v2(CUevent handle) {
  Driver* driver;
  SIM_TRY(Enter(&driver));
  return driver->events.Take(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
SIM_EXPORT CUresult cuEventDestroy(CUevent handle) { return cuEventDestroy_v2(handle); }

SIM_CALL_BOTH(cuEventRecordWithFlags, _ptsz,
              (CUevent event_handle, CUstream handle, unsigned int flags),
              (event_handle, handle, flags)) {
  Driver* driver;
  Context* context;
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Event> event;
  SIM_TRY(Enter(&driver, &context, handle, null_means, &stream));
  SIM_TRY(FindEvent(*driver, event_handle, &event));
  if (flags > CU_EVENT_RECORD_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  if (event->context != stream->context) return CUDA_ERROR_INVALID_HANDLE;
  return driver->Record(*stream, *event, flags);
}
SIM_CALL_BOTH(cuEventRecord, _ptsz, (CUevent event_handle, CUstream handle),
              (event_handle, handle)) {
  return cuEventRecordWithFlags_body(null_means, event_handle, handle, 0);
}

SIM_EXPORT CUresult cuCtxRecordEvent(CUcontext handle, CUevent event_handle) {
  Driver* driver;
  std::shared_ptr<Event> event;
  SIM_TRY(Enter(&driver));
  const auto context = driver->contexts.Find(handle);
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  SIM_TRY(FindEvent(*driver, event_handle, &event));
  if (event->context != context.get()) return CUDA_ERROR_INVALID_HANDLE;
  return driver->Record(*context, *event);
}

SIM_EXPORT CUresult cuEventQuery(CUevent handle) {
  Driver* driver;
  std::shared_ptr<Event> event;
  SIM_TRY(Enter(&driver));
  SIM_TRY(FindEvent(*driver, handle, &event));
  return driver->Query(*event);
}

SIM_EXPORT CUresult cuEventSynchronize(CUevent handle) {
  Driver* driver;
  std::shared_ptr<Event> event;
  SIM_TRY(Enter(&driver));
  SIM_TRY(FindEvent(*driver, handle, &event));
  return driver->Synchronize(*event);
}

SIM_EXPORT CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
  Driver* driver;
  std::shared_ptr<Event> first, second;
  SIM_TRY(Enter(&driver));
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(FindEvent(*driver, start, &first));
  SIM_TRY(FindEvent(*driver, end, &second));
  return driver->Elapsed(*first, *second, milliseconds);
}
SIM_EXPORT CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return cuEventElapsedTime_v2(milliseconds, start, end);
}
