// Loops of kernels that wait for what others write (Waits...) and of kernels that end by themselves
// (Ends...). release.ptx and debug.ptx are what nvcc makes of this file, by make_loops.sh.
__device__ unsigned word_of_module;

struct Node {
  Node* next;
  unsigned key;
};
struct Tree {
  int left, right, key;
};
struct Ring {
  unsigned* words;
  unsigned size;
};
__device__ __noinline__ unsigned Load(const unsigned* word) { return *(volatile const unsigned*)word; }
__device__ __noinline__ unsigned LoadPlainly(const unsigned* word) { return __ldcg(word); }
__device__ __noinline__ unsigned LoadCounted(const unsigned* word, unsigned tries) {
  return __ldcg(word) + (tries == 77);
}
__device__ __noinline__ void LoadInto(const unsigned* word, unsigned* result) { *result = __ldcg(word); }
__device__ __noinline__ unsigned Double(unsigned value) { return value * 2; }
struct Flag {
  unsigned* word;
  unsigned wanted;
  __device__ __noinline__ bool IsUp() const { return __ldcg(word) == wanted; }
};
struct Steps {
  const unsigned* at;
  const unsigned* end;
  __device__ __noinline__ void Next() { ++at; }
  __device__ __noinline__ bool More() const { return at != end; }
};
__device__ void Copy(unsigned* to, const unsigned* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from));
  asm volatile("cp.async.wait_all;" ::: "memory");
}
typedef unsigned (*Reader)(const unsigned*);

// ---- that wait ----
__global__ void WaitsForVolatile(unsigned* w) { while (*(volatile unsigned*)w == 0) {} }
__global__ void WaitsForAtomic(unsigned* w) { while (atomicAdd(w, 0u) == 0) {} }
__global__ void WaitsForLock(unsigned* w, unsigned* d) {
  while (atomicCAS(w, 0u, 1u) != 0) {}
  ++*d;
  __threadfence();
  atomicExch(w, 0u);
}
__global__ void WaitsForCached(unsigned* w) { while (__ldcg(w) == 0) {} }
__global__ void WaitsForCachedEverywhere(unsigned* w) { while (__ldca(w) == 0) { __threadfence(); } }
__global__ void WaitsForStreamed(unsigned* w) { while (__ldcv(w) == 0) {} }
__global__ void WaitsForVector(uint4* w) { while (__ldcg(w).z == 0) {} }
__global__ void WaitsForModuleVariable() { while (__ldcg(&word_of_module) == 0) {} }
__global__ void WaitsForOwnWord(unsigned* w) { while (__ldcg(w + blockIdx.x) == 0) {} }
__global__ void WaitsForEachWord(unsigned* w, int n) {
  for (int i = 0; i < n; ++i) while (__ldcg(w + i) == 0) {}
}
__global__ void WaitsForPointerInMemory(unsigned** w) { while (__ldcg(*w) == 0) { __threadfence(); } }
__global__ void WaitsInCall(unsigned* w) { while (Load(w) == 0) {} }
__global__ void WaitsInPlainCall(unsigned* w) { while (LoadPlainly(w) == 0) {} }
__global__ void WaitsInCountedCall(unsigned* w) {
  unsigned tries = 0;
  while (LoadCounted(w, tries++) == 0) {}
}
__global__ void WaitsInCallByReference(unsigned* w) {
  unsigned value = 0;
  while (value == 0) LoadInto(w, &value);
}
__global__ void WaitsInLambda(unsigned* w) {
  bool done = false;
  auto look = [&] { done = __ldcg(w) != 0; };
  while (!done) look();
}
__global__ void WaitsInMethod(unsigned* w) {
  const Flag flag{w, blockIdx.x + 1};
  while (!flag.IsUp()) {}
}
__global__ void WaitsByPointer(unsigned* w, int which) {
  Reader readers[2] = {Load, LoadPlainly};
  while (readers[which](w) == 0) {}
}
__global__ void WaitsWithBackOff(unsigned* w) {
  for (unsigned ns = 8; __ldcg(w) == 0; ns = ns < 1024 ? 2 * ns : ns) __nanosleep(ns);
}
__global__ void WaitsWithBackOffCounter(unsigned* w, unsigned* turns) {
  unsigned spins = 0, all = 0;
  while (__ldcg(w) == 0) {
    ++all;
    if (++spins > 100) {
      __nanosleep(100);
      spins = 0;
    }
  }
  *turns = all;
}
__global__ void WaitsAtMostSoOften(unsigned* w) {
  for (unsigned tries = 0; tries < 1u << 30; ++tries) if (__ldcg(w) != 0) break;
}
__global__ void WaitsAtMostSoLong(unsigned* w) {
  const long long begun = clock64();
  while (__ldcg(w) == 0 && clock64() - begun < 1ll << 40) {}
}
__global__ void WaitsByVariable(unsigned* w) {
  bool done = false;
  while (!done) {
    if (__ldcg(w) != 0) done = true;
  }
}
__global__ void WaitsByVariableSoOften(unsigned* w) {
  bool done = false;
  for (int i = 0; i < 1 << 30 && !done; ++i) {
    __threadfence();
    if (__ldcg(w) != 0) done = true;
  }
}
__global__ void WaitsForProducer(unsigned* tail, unsigned* data, unsigned n, unsigned* sum) {
  for (unsigned i = 0; i < n;) {
    if (i < __ldcg(tail)) *sum += data[i++];
  }
}
__global__ void WaitsForProducerWithoutBranch(unsigned* tail, unsigned n) {
  for (unsigned i = 0; i < n;) i += i < __ldcg(tail);
}
__global__ void WaitsForProducerByBatches(unsigned* tail, unsigned n) {
  for (unsigned i = 0; i < n;) i = min(i + 8, __ldcg(tail));
}
__global__ void WaitsForAnyOfRing(unsigned* w, unsigned n) {
  for (unsigned i = blockIdx.x; __ldcg(w + i) == 0;) i = (i + 1) % n;
}
__global__ void WaitsForAnyOfMaskedRing(unsigned* w, unsigned mask) {
  for (unsigned i = blockIdx.x; __ldcg(w + i) == 0;) i = (i + 1) & mask;
}
__global__ void WaitsForAnyOfRingThatStartsAnew(unsigned* w, unsigned n) {
  for (unsigned i = 0; __ldcg(w + i) == 0;) if (++i == n) i = 0;
}
__global__ void WaitsForTwoByTurns(unsigned* w, unsigned* v) {
  unsigned *one = w, *other = v;
  while (__ldcg(one) == 0) {
    unsigned* const next = other;
    other = one;
    one = next;
  }
}
__global__ void WaitsForTheWarp(unsigned* w) {
  while (!__all_sync(~0u, __ldcg(w + threadIdx.x) != 0)) {}
}
__global__ void WaitsForTheBlock(unsigned* w) {
  while (__syncthreads_or(__ldcg(w) == 0)) {}
}
__global__ void WaitsByShared(unsigned* w) {
  __shared__ unsigned seen;
  do {
    if (threadIdx.x == 0) seen = __ldcg(w);
    __syncthreads();
  } while (seen == 0);
}
__global__ void WaitsByCopy(unsigned* w) {
  __shared__ unsigned seen[4];
  do {
    Copy(seen, w);
  } while (seen[0] == 0);
}
__global__ void WaitsForLookBack(unsigned* states, unsigned* values, unsigned* out) {
  unsigned sum = 0;
  for (int tile = static_cast<int>(blockIdx.x) - 1; tile >= 0; --tile) {
    unsigned state;
    do {
      state = __ldcg(states + tile);
    } while (state == 0);
    sum += __ldcg(values + tile);
    if (state == 2) break;
  }
  out[blockIdx.x] = sum;
}
__device__ __noinline__ unsigned Again(unsigned* w, unsigned depth) {
  if (__ldcg(w) != 0) return depth;
  __nanosleep(10);
  return Again(w, depth + 1) + 1;
}
__global__ void WaitsByRecursion(unsigned* w) { w[1] = Again(w, 0); }
__device__ unsigned Other(unsigned* w, unsigned depth);
__device__ __noinline__ unsigned One(unsigned* w, unsigned depth) {
  return __ldcg(w) != 0 ? depth : Other(w, depth) * 2;
}
__device__ __noinline__ unsigned Other(unsigned* w, unsigned depth) { return One(w, depth + 1) + 1; }
__global__ void WaitsByTwoThatCallEachOther(unsigned* w) { w[1] = One(w, 0); }
__global__ void WaitsBehindWork(unsigned* w, const unsigned* a, unsigned* b, int n) {
  for (int round = 1; round < 10; ++round) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) b[i] += a[i];
    __syncthreads();
    if (threadIdx.x == 0) {
      atomicAdd(w, 1u);
      while (__ldcg(w) < round * gridDim.x) {}
    }
    __syncthreads();
  }
}

// ---- that end by themselves ----
__global__ void EndsAfterSum(const unsigned* a, int n, unsigned* sum) {
  unsigned s = 0;
  for (int i = 0; i < n; ++i) s += a[i];
  *sum = s;
}
__global__ void EndsAfterSumByCall(const unsigned* a, int n, unsigned* sum) {
  unsigned s = 0;
  for (int i = 0; i < n; ++i) s += LoadPlainly(a + i);
  *sum = s;
}
__global__ void EndsAfterGridStride(const float* a, float* b, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) b[i] = a[i] * 2;
}
__global__ void EndsByBoundInMemory(const unsigned* n, const unsigned* a, unsigned* b) {
  for (unsigned i = 0; i < *n; ++i) b[i] = a[i] + 1;
}
__global__ void EndsByStepInMemory(const unsigned* n, const unsigned* a, unsigned* b) {
  for (unsigned i = threadIdx.x; i < n[0]; i += n[1]) b[i] = a[i] + 1;
}
__global__ void EndsAfterRows(const int* rows, const int* columns, const float* x, float* y, int n) {
  for (int row = threadIdx.x; row < n; row += blockDim.x) {
    float sum = 0;
    for (int k = rows[row]; k < rows[row + 1]; ++k) sum += x[columns[k]];
    y[row] = sum;
  }
}
__global__ void EndsAfterRowsInMemory(const int* rows, const int* columns, const float* x, float* y, int n) {
  for (int row = threadIdx.x; row < n; row += blockDim.x) {
    for (int k = rows[row]; k < rows[row + 1]; ++k) y[row] += x[columns[k]];
  }
}
__global__ void EndsBySearch(const unsigned* a, unsigned n, unsigned x, unsigned* at) {
  unsigned low = 0, high = n;
  while (low < high) {
    const unsigned middle = (low + high) / 2;
    if (a[middle] < x) low = middle + 1; else high = middle;
  }
  *at = low;
}
__global__ void EndsByFirst(const unsigned* a, unsigned n, unsigned x, unsigned* at) {
  unsigned i = 0;
  for (; i < n; ++i) if (a[i] == x) break;
  *at = i;
}
__global__ void EndsByTerminator(const char* text, unsigned* length) {
  unsigned n = 0;
  while (text[n] != 0) ++n;
  *length = n;
}
__global__ void EndsByList(const Node* list, unsigned key, unsigned* found) {
  const Node* node = list;
  while (node != nullptr && node->key != key) node = node->next;
  *found = node != nullptr;
}
__global__ void EndsByTree(const Tree* tree, int key, int* found) {
  int node = 0;
  while (node >= 0 && tree[node].key != key) node = tree[node].key < key ? tree[node].right : tree[node].left;
  *found = node;
}
__global__ void EndsByParents(const int* parents, int* roots) {
  int node = threadIdx.x;
  while (parents[node] != node) node = parents[node];
  roots[threadIdx.x] = node;
}
__global__ void EndsByConvergence(float* x) {
  float value = x[threadIdx.x], last;
  do {
    last = value;
    value = 0.5f * (value + 2.0f / value);
  } while (fabsf(value - last) > 1e-6f);
  x[threadIdx.x] = value;
}
// Ends by itself, but who does not know that all of x is this thread's cannot tell: it may count as waiting.
__global__ void DoubtfulConvergenceInMemory(float* x, int n) {
  bool changed = true;
  while (changed) {
    changed = false;
    for (int i = 1; i < n; ++i) {
      const float value = x[i] < x[i - 1] ? x[i] : x[i - 1];
      if (value != x[i]) {
        x[i] = value;
        changed = true;
      }
    }
  }
}
__global__ void EndsByEscape(float* x, int most) {
  float a = 0, b = 0;
  int i = 0;
  while (i < most && a * a + b * b < 4) {
    const float c = a * a - b * b + x[0];
    b = 2 * a * b + x[1];
    a = c;
    ++i;
  }
  x[2 + threadIdx.x] = i;
}
__global__ void EndsByBits(const unsigned* masks, unsigned* sums) {
  unsigned sum = 0;
  for (unsigned mask = masks[threadIdx.x]; mask != 0; mask &= mask - 1) sum += masks[__ffs(mask)];
  sums[threadIdx.x] = sum;
}
__global__ void EndsByHalves(float* sums) {
  __shared__ float part[256];
  part[threadIdx.x] = sums[threadIdx.x];
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[0] = part[0];
}
__global__ void EndsByStack(const Tree* tree, unsigned* sum) {
  int stack[32], top = 0;
  unsigned all = 0;
  stack[top++] = 0;
  while (top > 0) {
    const Tree node = tree[stack[--top]];
    all += node.key;
    if (node.left >= 0) stack[top++] = node.left;
    if (node.right >= 0) stack[top++] = node.right;
  }
  *sum = all;
}
__global__ void EndsAfterClock(unsigned* out) {
  const long long begun = clock64();
  while (clock64() - begun < 1000) {}
  *out = 1;
}
__global__ void EndsAfterIterator(const unsigned* a, int n, unsigned* sum) {
  Steps steps{a, a + n};
  unsigned s = 0;
  for (; steps.More(); steps.Next()) s += 3;
  *sum = s;
}
__global__ void EndsAfterPureCall(unsigned n, unsigned* out) {
  unsigned i = 1;
  while (i < n) i = Double(i);
  *out = i;
}
__global__ void EndsAfterTiles(const float* a, const float* b, float* c, int n) {
  __shared__ float s[16][16], t[16][16];
  float sum = 0;
  for (int tile = 0; tile < n; tile += 16) {
    s[threadIdx.y][threadIdx.x] = a[(blockIdx.y * 16 + threadIdx.y) * n + tile + threadIdx.x];
    t[threadIdx.y][threadIdx.x] = b[(tile + threadIdx.y) * n + blockIdx.x * 16 + threadIdx.x];
    __syncthreads();
    for (int k = 0; k < 16; ++k) sum += s[threadIdx.y][k] * t[k][threadIdx.x];
    __syncthreads();
  }
  c[(blockIdx.y * 16 + threadIdx.y) * n + blockIdx.x * 16 + threadIdx.x] = sum;
}
__device__ __noinline__ unsigned SumOfTree(const Tree* tree, int node) {
  if (node < 0) return 0;
  return tree[node].key + SumOfTree(tree, tree[node].left) * 3 + SumOfTree(tree, tree[node].right);
}
__global__ void EndsByRecursion(const Tree* tree, unsigned* sum) { *sum = SumOfTree(tree, 0); }
__global__ void EndsByReadingOnce(unsigned* w, unsigned n) {
  const unsigned first = *(volatile unsigned*)w;
  for (unsigned i = first; i < n; ++i) w[i + 1] = i;
}
__global__ void EndsByStates(const unsigned char* text, unsigned n, unsigned* words) {
  unsigned state = 0, count = 0;
  for (unsigned i = 0; i < n; ++i) {
    switch (state) {
      case 0: if (text[i] > ' ') { state = 1; ++count; } break;
      case 1: if (text[i] == '"') state = 2; else if (text[i] <= ' ') state = 0; break;
      default: if (text[i] == '"') state = 1;
    }
  }
  *words = count;
}
__global__ void EndsByVariableLength(const unsigned char* records, unsigned n, unsigned* count) {
  unsigned found = 0;
  for (unsigned at = 0; at < n; at += records[at] + 1) ++found;
  *count = found;
}
