// A driver for `cupola doctor`: what it says of itself stands in FAKE_VERSION, FAKE_INIT and FAKE_MAJOR. It has what
// base/later_calls.h lists, unless it is built with WITHOUT_LATER_CALLS.
#include <signal.h>
#include <stdlib.h>
#include <string.h>

int cuInit(unsigned flags);
int cuDriverGetVersion(int* version);
int cuDeviceGetCount(int* count);
int cuDeviceGetName(char* name, int bytes, int device);
int cuDeviceGetAttribute(int* value, int attribute, int device);
int cuCtxRecordEvent(void* context, void* event);

static int Number(const char* name, int otherwise) {
  const char* text = getenv(name);
  return text != NULL ? atoi(text) : otherwise;
}

int cuInit(unsigned flags) {
  (void)flags;
  const int result = Number("FAKE_INIT", 0);
  if (result < 0) raise(SIGKILL);
  return result;
}
int cuDriverGetVersion(int* version) {
  *version = Number("FAKE_VERSION", 13000);
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = 2;
  return 0;
}
int cuDeviceGetName(char* name, int bytes, int device) {
  (void)device;
  memset(name, 'G', (size_t)bytes);  // without an end, as a driver should not
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  (void)device;
  *value = attribute == 75 ? Number("FAKE_MAJOR", 9) : 0;
  return 0;
}
#ifndef WITHOUT_LATER_CALLS
int cuCtxRecordEvent(void* context, void* event) {
  (void)context;
  (void)event;
  return 0;
}
#endif
