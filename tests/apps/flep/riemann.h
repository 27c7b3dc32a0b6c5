// The exact solution of the one-dimensional Riemann problem of an ideal gas, and with it the flux
// of the Euler equations through a face: Godunov's finite volume method (E. F. Toro, Riemann
// Solvers and Numerical Methods for Fluid Dynamics, chapter 4). Host and device.
#pragma once

#include <cmath>

/// A gas: density, velocity across and along the face (or x and y), pressure.
template <typename Real>
struct Gas {
  Real density, across, along, pressure;
};

/// Mass, momentum across, momentum along, energy.
template <typename Real>
struct Flow {
  Real mass, across, along, energy;
};

constexpr double kGamma = 1.4;

/// One wave: how the velocity behind it depends on the pressure there, and the derivative of that.
template <typename Real>
__host__ __device__ Real BehindWave(const Gas<Real>& gas, Real sound, Real pressure, Real* slope) {
  const Real gamma = static_cast<Real>(kGamma);
  if (pressure > gas.pressure) {  // a shock
    const Real a = 2 / ((gamma + 1) * gas.density);
    const Real b = (gamma - 1) / (gamma + 1) * gas.pressure;
    const Real root = sqrt(a / (pressure + b));
    *slope = root * (1 - (pressure - gas.pressure) / (2 * (b + pressure)));
    return (pressure - gas.pressure) * root;
  }
  const Real ratio = pressure / gas.pressure;  // a rarefaction
  *slope = pow(ratio, -(gamma + 1) / (2 * gamma)) / (gas.density * sound);
  return 2 * sound / (gamma - 1) * (pow(ratio, (gamma - 1) / (2 * gamma)) - 1);
}

/// The gas at the face itself when the wave on the left side, of sound speed `sound`, has passed.
/// `pressure` and `speed` are those of the star region; the face is at rest.
template <typename Real>
__host__ __device__ Gas<Real> AtFaceFromLeft(const Gas<Real>& left, Real sound, Real pressure,
                                             Real speed) {
  const Real gamma = static_cast<Real>(kGamma);
  const Real ratio = pressure / left.pressure;
  if (ratio > 1) {
    const Real shock =
        left.across - sound * sqrt((gamma + 1) / (2 * gamma) * ratio + (gamma - 1) / (2 * gamma));
    if (shock >= 0) return left;
    const Real k = (gamma - 1) / (gamma + 1);
    return {left.density * (ratio + k) / (ratio * k + 1), speed, left.along, pressure};
  }
  if (left.across - sound >= 0) return left;
  const Real star_sound = sound * pow(ratio, (gamma - 1) / (2 * gamma));
  if (speed - star_sound <= 0) {
    return {left.density * pow(ratio, 1 / gamma), speed, left.along, pressure};
  }
  const Real in_fan = 2 / (gamma + 1) + (gamma - 1) / ((gamma + 1) * sound) * left.across;
  const Real density = left.density * pow(in_fan, 2 / (gamma - 1));
  return {density, 2 / (gamma + 1) * (sound + (gamma - 1) / 2 * left.across), left.along,
          left.pressure * pow(in_fan, 2 * gamma / (gamma - 1))};
}

template <typename Real>
__host__ __device__ Gas<Real> Mirrored(Gas<Real> gas) {
  gas.across = -gas.across;
  return gas;
}

/// The gas at a face between `left` and `right`. The star pressure by four steps of Newton's
/// method, always four, from the mean of the two pressures.
template <typename Real>
__host__ __device__ Gas<Real> AtFace(const Gas<Real>& left, const Gas<Real>& right) {
  const Real gamma = static_cast<Real>(kGamma);
  const Real sound_left = sqrt(gamma * left.pressure / left.density);
  const Real sound_right = sqrt(gamma * right.pressure / right.density);
  Real pressure = (left.pressure + right.pressure) / 2;
  Real change_left = 0, change_right = 0;
  for (int i = 0; i < 4; ++i) {
    Real slope_left = 0, slope_right = 0;
    change_left = BehindWave(left, sound_left, pressure, &slope_left);
    change_right = BehindWave(right, sound_right, pressure, &slope_right);
    const Real miss = change_left + change_right + right.across - left.across;
    const Real next = pressure - miss / (slope_left + slope_right);
    pressure = next > pressure / 10 ? next : pressure / 10;
  }
  const Real speed = (left.across + right.across + change_right - change_left) / 2;
  if (speed >= 0) return AtFaceFromLeft(left, sound_left, pressure, speed);
  return Mirrored(AtFaceFromLeft(Mirrored(right), sound_right, pressure, -speed));
}

template <typename Real>
__host__ __device__ Flow<Real> FlowThrough(const Gas<Real>& gas) {
  const Real kinetic = gas.density * (gas.across * gas.across + gas.along * gas.along) / 2;
  const Real energy = gas.pressure / static_cast<Real>(kGamma - 1) + kinetic;
  const Real mass = gas.density * gas.across;
  return {mass, mass * gas.across + gas.pressure, mass * gas.along,
          gas.across * (energy + gas.pressure)};
}
