"""The reference shows the value of an attribute only if it is one that a reader could write: `= "pending"`."""

from typing import Any

import griffe


class WrittenValues(griffe.Extension):
    """Leave out the names, attributes and calls that attributes are computed from, such as `definition.model`."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Drop the value of an attribute if it is computed."""
        if isinstance(attr.value, griffe.ExprName | griffe.ExprAttribute | griffe.ExprCall):
            attr.value = None
