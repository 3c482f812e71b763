"""XML of robot files: read without entities or network, checked against a table of supported elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from risp_torch.scene.robot_files.packages import required
from risp_torch.scene.robot_files.unsupported import Unsupported
from ti_sim.base.errors import UserError


@dataclass(frozen=True)
class ElementRule:
    """Attributes and children that are imported from one kind of element.

    Attributes:
        text: attributes with words, or with numbers that are checked elsewhere.
        numbers: attributes with numbers, and the allowed counts.
        required: required attributes and children.
        single: children that may occur once.
        repeated: children that may occur several times.
    """

    text: tuple[str, ...] = ()
    numbers: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    single: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()


def read_xml(path: Path) -> Any:
    """The root element of a file, without comments.

    Raises:
        UserError: it is missing, not XML, or declares a document type (through which XML may name other files).
    """
    if not path.is_file():
        raise UserError(f"robot file {path} does not exist (looked for {path.absolute()}): check the path")
    etree = required("lxml.etree")
    try:
        return parse_xml(path.read_bytes())
    except OSError as error:
        raise UserError(f"robot file {path} cannot be read ({error.strerror}): check its permissions") from error
    except etree.XMLSyntaxError as error:
        raise UserError(f"robot file {path} is not XML ({error}): a URDF or MJCF file is needed") from error
    except ValueError as error:
        raise UserError(f"robot file {path}: {error}") from error


def parse_xml(data: bytes) -> Any:
    """The root element of XML in memory, without comments.

    Raises:
        lxml.etree.XMLSyntaxError: it is not XML.
        ValueError: it declares a document type.
    """
    etree = required("lxml.etree")
    parser = etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True, remove_comments=True, remove_pis=True)
    root = etree.fromstring(data, parser)
    if root.getroottree().docinfo.doctype:
        raise ValueError("it declares a document type (<!DOCTYPE ...>): remove that line")
    return root


def label(element: Any) -> str:
    """The place of an element by the nearest name, "joint 'elbow'", or by the parent element if nothing has a name."""
    for ancestor in (element, *element.iterancestors()):
        name = ancestor.get("name") or (ancestor.get("class") if ancestor.tag == "default" else None)
        if name:
            return f"{ancestor.tag} {name!r}"
    return f"<{element.tag if element.getparent() is None else element.getparent().tag}>"


def check_element(
    element: Any,
    table: Mapping[str, ElementRule],
    left_out: Unsupported,
    path: Path,
    *,
    explain: Mapping[str, str],
    harmless: Callable[[Any, str], bool] = lambda element, attribute: False,
) -> None:
    """Check an element and its descendants against a table, and record what the table does not contain.

    Args:
        element: element whose kind is in ``table``.
        table: what is imported, by tag.
        left_out: collects everything else.
        path: path of the file, for errors.
        explain: how a feature that is not imported is treated, by tag or by "tag.attribute"; others are "not used".
        harmless: whether an attribute of an element that is not in the table may be ignored silently.

    Raises:
        UserError: something required is missing, or a number is invalid.
    """
    allowed = table[element.tag]
    location = label(element)
    for requirement in allowed.required:
        if element.get(requirement) is None and element.find(requirement) is None:
            raise UserError(f"{path}: <{element.tag}> of {location} has no {requirement}: it needs one")
    for attribute, value in element.attrib.items():
        if attribute in allowed.numbers:
            _check_numbers(value, allowed.numbers[attribute], f"{path}: {attribute} of <{element.tag}> of {location}")
        elif attribute not in allowed.text and not harmless(element, attribute):
            feature = explain.get(f"{element.tag}.{attribute}", f"{attribute} of <{element.tag}> is not used")
            left_out.add(feature, location)
    met = set()
    for child in element:
        if child.tag in allowed.single and child.tag in met:
            left_out.add(f"a second <{child.tag}> is not used", location)
        elif child.tag in allowed.single or child.tag in allowed.repeated:
            met.add(child.tag)
            check_element(child, table, left_out, path, explain=explain, harmless=harmless)
        else:
            left_out.add(explain.get(child.tag, f"<{child.tag}> is not used"), label(child))


def _check_numbers(value: str, counts: tuple[int, ...], name: str) -> None:
    count_text = " or ".join(str(count) for count in counts)
    try:
        numbers = np.array([float(word) for word in value.replace(",", " ").split()])
    except ValueError:
        raise UserError(f"{name} is {value!r}: give {count_text} numbers") from None
    if len(numbers) not in counts or not np.isfinite(numbers).all():
        raise UserError(f"{name} is {value!r}: give {count_text} finite numbers")
