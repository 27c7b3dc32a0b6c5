// Draws the same picture until its standard input ends; prints how often, on standard error, and
// its checksum. render WIDTH HEIGHT ITERATIONS
#include <vector>

#include "check.h"

__global__ void Mandelbrot(uint16_t* out, int width, int height, int iterations) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x >= width) return;
  const float a = 3.0f * x / width - 2.0f, b = 2.0f * y / height - 1.0f;
  float u = 0, v = 0;
  int i = 0;
  for (; i < iterations && u * u + v * v < 4.0f; ++i) {
    const float next = u * u - v * v + a;
    v = 2.0f * u * v + b;
    u = next;
  }
  out[y * width + x] = i;
}

int main(int, char** argv) {
  const int width = std::atoi(argv[1]), height = std::atoi(argv[2]),
            iterations = std::atoi(argv[3]);
  uint16_t* device;
  std::vector<uint16_t> picture(size_t(width) * height);
  Check(cudaMalloc(&device, picture.size() * sizeof(uint16_t)));
  int pictures = 0;
  do {
    Mandelbrot<<<dim3((width + 127) / 128, height), 128>>>(device, width, height, iterations);
    Check(cudaDeviceSynchronize());
    ++pictures;
  } while (!InputHasEnded());
  Check(cudaMemcpy(picture.data(), device, picture.size() * sizeof(uint16_t),
                   cudaMemcpyDeviceToHost));
  std::fprintf(stderr, "  %d pictures\n", pictures);
  std::printf("%016llx\n",
              static_cast<unsigned long long>(Checksum(picture.data(), picture.size())));
}
