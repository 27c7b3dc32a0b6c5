// Streams and events. CUDA Runtime API, "Stream Management", "Event Management".
#include "device/sim/cudart/runtime.h"

using namespace cupola::cudart;  // NOLINT: the exported calls are below

CUPOLA_CUDART_CALL(cudaStreamCreate, (cudaStream_t* stream),
                   calls.cuStreamCreateWithPriority(stream, CU_STREAM_DEFAULT, 0))
CUPOLA_CUDART_CALL(cudaStreamCreateWithFlags, (cudaStream_t* stream, unsigned flags),
                   calls.cuStreamCreateWithPriority(stream, flags, 0))
CUPOLA_CUDART_CALL(cudaStreamCreateWithPriority,
                   (cudaStream_t* stream, unsigned flags, int priority),
                   calls.cuStreamCreateWithPriority(stream, flags, priority))
CUPOLA_CUDART_CALL(cudaStreamDestroy, (cudaStream_t stream), calls.cuStreamDestroy(stream))
CUPOLA_CUDART_STREAM_CALL(cudaStreamSynchronize, _ptsz, (cudaStream_t stream),
                          calls.cuStreamSynchronize(stream))
CUPOLA_CUDART_STREAM_CALL(cudaStreamQuery, _ptsz, (cudaStream_t stream),
                          calls.cuStreamQuery(stream))
CUPOLA_CUDART_STREAM_CALL(cudaStreamWaitEvent, _ptsz,
                          (cudaStream_t stream, cudaEvent_t event, unsigned flags),
                          calls.cuStreamWaitEvent(stream, event, flags))
CUPOLA_CUDART_STREAM_CALL(cudaStreamGetPriority, _ptsz, (cudaStream_t stream, int* priority),
                          calls.cuStreamGetPriority(stream, priority))
CUPOLA_CUDART_STREAM_CALL(cudaStreamGetFlags, _ptsz, (cudaStream_t stream, unsigned* flags),
                          calls.cuStreamGetFlags(stream, flags))
CUPOLA_CUDART_STREAM_CALL(cudaStreamGetId, _ptsz, (cudaStream_t stream, unsigned long long* id),
                          calls.cuStreamGetId(stream, id))
CUPOLA_CUDART_STREAM_CALL(cudaStreamAddCallback, _ptsz,
                          (cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                           unsigned flags),
                          calls.cuStreamAddCallback(stream,
                                                    reinterpret_cast<CUstreamCallback>(callback),
                                                    data, flags))

CUPOLA_CUDART_CALL(cudaEventCreate, (cudaEvent_t* event), calls.cuEventCreate(event, 0))
CUPOLA_CUDART_CALL(cudaEventCreateWithFlags, (cudaEvent_t* event, unsigned flags),
                   calls.cuEventCreate(event, flags))
CUPOLA_CUDART_CALL(cudaEventDestroy, (cudaEvent_t event), calls.cuEventDestroy(event))
CUPOLA_CUDART_STREAM_CALL(cudaEventRecord, _ptsz, (cudaEvent_t event, cudaStream_t stream),
                          calls.cuEventRecord(event, stream))
CUPOLA_CUDART_STREAM_CALL(cudaEventRecordWithFlags, _ptsz,
                          (cudaEvent_t event, cudaStream_t stream, unsigned flags),
                          calls.cuEventRecordWithFlags(event, stream, flags))
CUPOLA_CUDART_CALL(cudaEventQuery, (cudaEvent_t event), calls.cuEventQuery(event))
CUPOLA_CUDART_CALL(cudaEventSynchronize, (cudaEvent_t event), calls.cuEventSynchronize(event))
CUPOLA_CUDART_CALL(cudaEventElapsedTime, (float* milliseconds, cudaEvent_t start, cudaEvent_t end),
                   calls.cuEventElapsedTime(milliseconds, start, end))
