"""Path-traced pictures with Mitsuba 3 (the extra ``photoreal``): the second domain of RISP, and a check of the rasteriser.

Jakob et al., Mitsuba 3 renderer, 2022. Mitsuba is imported with the first picture.
"""

from ti_render.photoreal.appearance import Appearance, draw_appearance
from ti_render.photoreal.renderer import MitsubaRenderer, Picture
from ti_render.photoreal.settings import MitsubaSettings
from ti_render.photoreal.variant import Variant, choose_variant

__all__ = ["Appearance", "MitsubaRenderer", "MitsubaSettings", "Picture", "Variant", "choose_variant", "draw_appearance"]
