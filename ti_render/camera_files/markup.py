"""YAML and XML of calibrated cameras, read without further packages: the subset that OpenCV's FileStorage and ROS write.

Of YAML: nested mappings and lists by indentation, lists and mappings in brackets over several lines, plain and quoted scalars,
comments; tags and the lines of a document's head are skipped. Of XML: elements of text or of other elements.
"""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

from ti_sim.base.errors import UserError
from ti_sim.base.json_text import parse_json

_MAX_DEPTH = 20  # levels of nesting
_TOKENS = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[\[\]{},:]|[^\s\[\]{},:"'][^\[\]{},]*)""")


def read_yaml(text: str) -> Any:
    """The mapping, list or scalar of a YAML document.

    Raises:
        UserError: the text is outside of this subset of YAML; the message names the line.
    """
    lines = _Lines(text)
    value = lines.parse_block(0, 0)
    if lines.rows:
        raise UserError(f"line {lines.rows[0][0]} of the YAML is not understood ({lines.rows[0][2][:40]!r}): export it again")
    return value


def read_xml(text: str) -> Any:
    """Nested mappings of an XML document: element -> its text, or the mapping of its elements.

    Raises:
        UserError: the text is no XML, or defines entities.
    """
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise UserError("the XML has a document type, which is not read: export it again without")
    try:
        return _parse_element(ElementTree.fromstring(text), 0)
    except ElementTree.ParseError as error:
        raise UserError(f"not valid XML ({error}): export it again") from None


def _parse_element(element: ElementTree.Element, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise UserError(f"the XML is nested more than {_MAX_DEPTH} levels deep: export it again")
    if len(element):
        return {child.tag: _parse_element(child, depth + 1) for child in element}
    words = (element.text or "").split()
    scalars = [_parse_scalar(word) for word in words]
    if element.tag == "data" or len(words) > 1 and all(isinstance(word, int | float) for word in scalars):
        return scalars
    return _parse_scalar((element.text or "").strip().strip('"'))


class _Lines:
    """The lines of a document that are not empty: (number, indentation, text) each."""

    def __init__(self, text: str) -> None:
        self.rows: list[tuple[int, int, str]] = []
        open_row: tuple[int, int, str] | None = None  # line with an open bracket
        for number, line in enumerate(text.splitlines(), start=1):
            content = re.sub(r"(^|\s)#.*$", "", line).rstrip()
            if not content.strip() or (open_row is None and re.match(r"%|---|\.\.\.", content)):
                continue
            if open_row is None:
                open_row = (number, len(content) - len(content.lstrip(" ")), content.strip())
            else:
                open_row = (*open_row[:2], f"{open_row[2]} {content.strip()}")
            if sum(open_row[2].count(c) for c in "[{") <= sum(open_row[2].count(c) for c in "]}"):
                self.rows.append(open_row)
                open_row = None
        if open_row is not None:
            raise UserError(f"line {open_row[0]} of the YAML opens a bracket that is not closed: export it again")

    def parse_block(self, min_indentation: int, depth: int) -> Any:
        """The value of the first lines that are indented by at least ``min_indentation``."""
        if depth > _MAX_DEPTH:
            raise UserError(f"the YAML is nested more than {_MAX_DEPTH} levels deep: export it again")
        if not self.rows or self.rows[0][1] < min_indentation:
            return None
        indentation = self.rows[0][1]
        if self.rows[0][2] == "-" or self.rows[0][2].startswith("- "):
            return self._parse_items(indentation, depth)
        if re.match(r"[^\[{\"'][^:]*:(\s|$)|[\"'][^\"']*[\"']\s*:(\s|$)", self.rows[0][2]) is None:
            return _parse_flow_value(self.rows.pop(0)[2])
        values: dict[str, Any] = {}
        while self.rows and self.rows[0][1] == indentation and not self.rows[0][2].startswith("- "):
            number, _, text = self.rows.pop(0)
            key, colon, remainder = text.partition(":")
            if not colon:
                raise UserError(f"line {number} of the YAML is not understood ({text[:40]!r}): export it again")
            remainder = re.sub(r"^!\S*\s*", "", remainder.strip())
            values[str(_parse_scalar(key.strip()))] = (
                _parse_flow_value(remainder) if remainder else self._parse_value_below_key(indentation, depth)
            )
        return values

    def _parse_value_below_key(self, indentation: int, depth: int) -> Any:
        """The value below a key: a list may have the same indentation as its key."""
        is_list = bool(self.rows) and self.rows[0][1] == indentation and self.rows[0][2].startswith("-")
        return self.parse_block(indentation if is_list else indentation + 1, depth + 1)

    def _parse_items(self, indentation: int, depth: int) -> list[Any]:
        items = []
        while self.rows and self.rows[0][1] == indentation and (self.rows[0][2] == "-" or self.rows[0][2].startswith("- ")):
            number, _, text = self.rows.pop(0)
            remainder = re.sub(r"^!\S*\s*", "", text[1:].strip())
            if remainder:  # a mapping or list that begins after the dash continues below its first key
                self.rows.insert(0, (number, indentation + len(text) - len(text[1:].lstrip()), remainder))
            items.append(self.parse_block(indentation + 1, depth + 1))
        return items


def _parse_flow_value(text: str) -> Any:
    """A scalar, or lists and mappings in brackets."""
    if text[:1] not in "[{":
        return _parse_scalar(text)
    tokens = _TOKENS.findall(text)
    tokens.reverse()
    value = _parse_brackets(tokens, 0)
    if tokens:
        raise UserError(f"the YAML value {text[:40]!r} continues after its bracket: export it again")
    return value


def _parse_brackets(tokens: list[str], depth: int) -> Any:
    if depth > _MAX_DEPTH or not tokens:
        raise UserError("brackets of the YAML are not closed, or nested too deeply: export it again")
    opening = tokens.pop()
    if opening not in "[{":
        return _parse_scalar(opening.strip())
    items, mapping = [], {}
    while tokens and tokens[-1] not in "]}":
        value = _parse_brackets(tokens, depth + 1)
        if opening == "{":
            if isinstance(value, str) and ":" in value:  # "rows: 3" is one token
                key, _, remainder = value.partition(":")
                value = _parse_scalar(remainder.strip()) if remainder.strip() else _parse_brackets(tokens, depth + 1)
                mapping[key.strip()] = value
            elif tokens and tokens[-1] == ":":
                tokens.pop()
                mapping[str(value)] = _parse_brackets(tokens, depth + 1)
            else:
                raise UserError("a mapping in the YAML has an entry without a value: export it again")
        else:
            items.append(value)
        if tokens and tokens[-1] == ",":
            tokens.pop()
    if not tokens:
        raise UserError("brackets of the YAML are not closed: export it again")
    tokens.pop()
    return mapping if opening == "{" else items


def _parse_scalar(text: str) -> Any:
    """A number, or a text without its quotes."""
    if text[:1] == '"' and text[-1:] == '"' and len(text) > 1:
        try:
            return parse_json(text)
        except ValueError:
            return text[1:-1]
    if text[:1] == "'" and text[-1:] == "'" and len(text) > 1:
        return text[1:-1].replace("''", "'")
    if text.lower() in (".nan", "nan", ".inf", "+.inf", "-.inf"):
        return float(text.replace(".", ""))
    for number_type in (int, float):
        try:
            return number_type(text)
        except ValueError:
            continue
    return text
