// Network packets of very different lengths, each block of eight bytes encrypted by 3DES (FIPS
// 46-3, ECB). No barriers; look-ups in tables.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "app.h"
#include "block.cuh"
#include "des_tables.h"

namespace pagoda {

struct TripleDes : KindDefaults {
  struct Table {
    uint32_t boxes[8][64];
    DesRoundKey keys[3 * kDesRounds];  // as they are used: encrypt, decrypt, encrypt
  };
  struct Args {
    Io io;
    const Table* table;
    unsigned size;
  };
  using Output = uint8_t;
  static constexpr double kTolerance = 0;
  static constexpr unsigned kSize = 65536, kQuantum = 2048;  // bytes
  static constexpr size_t kTableBytes = sizeof(Table);

  /// From 2 KiB on, short ones as many as long ones on a scale of logarithms.
  static unsigned SizeOf(const Item& item, unsigned size) {
    const float least = std::fmin(2048.0f, static_cast<float>(size));
    const float bytes = least * std::pow(static_cast<float>(size) / least, item.Share(7));
    return static_cast<unsigned>(bytes) / 8 * 8;
  }
  static size_t InBytes(unsigned size) { return size; }
  static size_t OutBytes(unsigned size) { return size; }

  /// With the keys of NIST SP 800-67's example, which must come out.
  static void FillTable(char* memory) {
    constexpr uint64_t kKeys[3] = {0x0123456789abcdef, 0x23456789abcdef01, 0x456789abcdef0123};
    Table* const table = new (memory) Table;
    FillDesBoxes(table->boxes);
    for (unsigned i = 0; i < 3; ++i) {
      DesRoundKey* const keys = table->keys + i * kDesRounds;
      ExpandDesKey(kKeys[i], keys);
      if (i == 1) std::reverse(keys, keys + kDesRounds);
    }
    uint32_t left = 0x54686520, right = 0x71756663;  // "The qufc"
    Encrypt(*table, &left, &right);
    if (left != 0xa826fd8c || right != 0xe53b855f) {
      std::fprintf(stderr, "3DES is wrong: %08x%08x\n", left, right);
      std::exit(1);
    }
  }

  static void FillInput(const Item& item, char* in) {
    for (unsigned i = 0; i < item.size; i += 4) {
      const uint32_t bytes = item.Random(i);
      std::memcpy(in + i, &bytes, 4);
    }
  }

  static Args Arguments(const Item& item, const Io& io, const char* table) {
    return {io, reinterpret_cast<const Table*>(table), item.size};
  }

  template <class Block>
  static __device__ void Run(const Block& block, const Args& a) {
    for (unsigned i = block.thread; i < a.size / 8; i += block.threads) EncryptBlock(a, i);
  }

  static void Reference(const Args& a) {
    for (unsigned i = 0; i < a.size / 8; ++i) EncryptBlock(a, i);
  }

 private:
  static __host__ __device__ uint32_t Swapped(uint32_t word) {
    return word >> 24 | (word >> 8 & 0xff00) | (word & 0xff00) << 8 | word << 24;
  }

  static __host__ __device__ void EncryptBlock(const Args& a, unsigned i) {
    const auto* const in = reinterpret_cast<const uint32_t*>(a.io.in) + 2 * i;
    auto* const out = reinterpret_cast<uint32_t*>(a.io.out) + 2 * i;
    uint32_t left = Swapped(in[0]), right = Swapped(in[1]);
    Encrypt(*a.table, &left, &right);
    out[0] = Swapped(left);
    out[1] = Swapped(right);
  }

  /// Exchanges the bits of `mask` in b with those `shift` higher in a.
  static __host__ __device__ void Exchange(uint32_t& a, uint32_t& b, unsigned shift,
                                           uint32_t mask) {
    const uint32_t both = ((a >> shift) ^ b) & mask;
    b ^= both;
    a ^= both << shift;
  }

  static __host__ __device__ uint32_t Round(const Table& table, const DesRoundKey& key,
                                            uint32_t half) {
    const uint32_t odd = (half >> 1 | half << 31) ^ key.odd;
    const uint32_t even = (half << 3 | half >> 29) ^ key.even;
    return table.boxes[0][odd >> 26] ^ table.boxes[1][even >> 26] ^ table.boxes[2][odd >> 18 & 63] ^
           table.boxes[3][even >> 18 & 63] ^ table.boxes[4][odd >> 10 & 63] ^
           table.boxes[5][even >> 10 & 63] ^ table.boxes[6][odd >> 2 & 63] ^
           table.boxes[7][even >> 2 & 63];
  }

  /// The permutations between the three ciphers undo each other.
  static __host__ __device__ void Encrypt(const Table& table, uint32_t* left, uint32_t* right) {
    uint32_t l = *left, r = *right;
    Exchange(l, r, 4, 0x0f0f0f0f);
    Exchange(l, r, 16, 0x0000ffff);
    Exchange(r, l, 2, 0x33333333);
    Exchange(r, l, 8, 0x00ff00ff);
    Exchange(l, r, 1, 0x55555555);
    for (unsigned cipher = 0; cipher < 3; ++cipher) {
      const DesRoundKey* const keys = table.keys + cipher * kDesRounds;
      for (unsigned round = 0; round < kDesRounds; round += 2) {
        l ^= Round(table, keys[round], r);
        r ^= Round(table, keys[round + 1], l);
      }
      const uint32_t other = l;
      l = r;
      r = other;
    }
    Exchange(l, r, 1, 0x55555555);
    Exchange(r, l, 8, 0x00ff00ff);
    Exchange(r, l, 2, 0x33333333);
    Exchange(l, r, 16, 0x0000ffff);
    Exchange(l, r, 4, 0x0f0f0f0f);
    *left = l;
    *right = r;
  }
};

struct TripleDesApp : Independent<TripleDesApp, TripleDes> {
  static constexpr const char* kName = "3des";
};

}  // namespace pagoda
