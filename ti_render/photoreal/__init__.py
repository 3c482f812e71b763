"""Path-traced pictures with Mitsuba 3 (the extra ``photoreal``): the second domain, and an outside check of the first.

Jakob et al., Mitsuba 3 renderer, 2022. Mitsuba is loaded when the first picture is asked for, never at import.
"""

from ti_render.photoreal.appearance import Appearance, draw_appearance
from ti_render.photoreal.film import MitsubaFilm, Picture
from ti_render.photoreal.settings import MitsubaSettings
from ti_render.photoreal.variant import Variant, choose_variant

__all__ = ["Appearance", "MitsubaFilm", "MitsubaSettings", "Picture", "Variant", "choose_variant", "draw_appearance"]
