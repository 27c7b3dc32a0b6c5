// Another program's kernel.
__global__ void Other(float* numbers) { numbers[threadIdx.x] += 1; }

int main() {
  Other<<<1, 32>>>(nullptr);
  return 0;
}
