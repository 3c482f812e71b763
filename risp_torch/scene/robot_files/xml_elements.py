"""XML of robot files: read without entities or network, checked against a table of supported elements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from risp_torch.scene.robot_files.packages import import_robot_package
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
    etree = import_robot_package("lxml.etree")
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
    etree = import_robot_package("lxml.etree")
    parser = etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True, remove_comments=True, remove_pis=True)
    root = etree.fromstring(data, parser)
    if root.getroottree().docinfo.doctype:
        raise ValueError("it declares a document type (<!DOCTYPE ...>): remove that line")
    return root


def element_location(element: Any) -> str:
    """The location of an element by the nearest name, "joint 'elbow'", or by the parent element if nothing has a name."""
    for ancestor in (element, *element.iterancestors()):
        name = ancestor.get("name") or (ancestor.get("class") if ancestor.tag == "default" else None)
        if name:
            return f"{ancestor.tag} {name!r}"
    return f"<{element.tag if element.getparent() is None else element.getparent().tag}>"


def check_element(
    element: Any,
    rules: Mapping[str, ElementRule],
    unsupported: Unsupported,
    path: Path,
    *,
    treatments: Mapping[str, str],
) -> None:
    """Check an element and its descendants against a table, and record what the table does not contain.

    Args:
        element: element whose tag is in ``rules``.
        rules: imported attributes and children, by tag.
        unsupported: collects all other elements and attributes.
        path: path of the file, for errors.
        treatments: how a feature that is not imported is treated, by tag or by "tag.attribute"; others are "not used".

    Raises:
        UserError: something required is missing, or a number is invalid.
    """
    rule = rules[element.tag]
    location = element_location(element)
    for requirement in rule.required:
        if element.get(requirement) is None and element.find(requirement) is None:
            raise UserError(f"{path}: <{element.tag}> of {location} has no {requirement}: it needs one")
    for attribute, value in element.attrib.items():
        if attribute in rule.numbers:
            _check_numbers(value, rule.numbers[attribute], f"{path}: {attribute} of <{element.tag}> of {location}")
        elif attribute not in rule.text:
            feature = treatments.get(f"{element.tag}.{attribute}", f"{attribute} of <{element.tag}> is not used")
            unsupported.add(feature, location)
    seen_tags = set()
    for child in element:
        if child.tag in rule.single and child.tag in seen_tags:
            unsupported.add(f"a second <{child.tag}> is not used", location)
        elif child.tag in rule.single or child.tag in rule.repeated:
            seen_tags.add(child.tag)
            check_element(child, rules, unsupported, path, treatments=treatments)
        else:
            unsupported.add(treatments.get(child.tag, f"<{child.tag}> is not used"), element_location(child))


def _check_numbers(value: str, counts: tuple[int, ...], name: str) -> None:
    count_text = " or ".join(str(count) for count in counts)
    try:
        numbers = np.array([float(word) for word in value.replace(",", " ").split()])
    except ValueError:
        raise UserError(f"{name} is {value!r}: give {count_text} numbers") from None
    if len(numbers) not in counts or not np.isfinite(numbers).all():
        raise UserError(f"{name} is {value!r}: give {count_text} finite numbers")
