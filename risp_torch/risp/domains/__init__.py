"""Rendering domains: how the pictures look that RISP is trained on, that the inversion loop renders, and that it is given."""

from risp_torch.risp.domains.domains import Domains, PhotorealDomain, RasteriserDomain

__all__ = ["Domains", "PhotorealDomain", "RasteriserDomain"]
