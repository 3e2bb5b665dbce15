"""Distances between source and target features, as pure functions of tensors."""

from beacon.methods.losses.discrepancy import energy_distance, multi_kernel_mmd
from beacon.methods.losses.transport import pair_costs, transport_loss, transport_plan

__all__ = ["energy_distance", "multi_kernel_mmd", "pair_costs", "transport_loss", "transport_plan"]
