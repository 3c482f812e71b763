"""Films of cameras and other programs: properties of a file, and its pictures as linear colour with their times."""

from risp_torch.files.film.clock import Clock
from risp_torch.files.film.colours import Colours
from risp_torch.files.film.cut import Cut
from risp_torch.files.film.facts import FilmFacts
from risp_torch.files.film.film import Film, film_facts, read_film
from risp_torch.files.film.placement import Placement, StoredPicture
from risp_torch.files.film.write import write_film

__all__ = [
    "Clock", "Colours", "Cut", "Film", "FilmFacts", "Placement", "StoredPicture", "film_facts", "read_film", "write_film",
]  # fmt: skip
