"""The ways to flip code, by their key in a plan."""

from capturegate_mutations.operators.base import Arguments, Example, Operator
from capturegate_mutations.operators.delete import Delete
from capturegate_mutations.operators.move import Move
from capturegate_mutations.operators.replace import Replace
from capturegate_mutations.operators.return_value import ReturnValue
from capturegate_mutations.operators.wrap_in_if import WrapInIf

_ALL: tuple[Operator, ...] = (WrapInIf(), Replace(), ReturnValue(), Delete(), Move())

OPERATORS: dict[str, Operator] = {operator.name: operator for operator in _ALL}

__all__ = ["OPERATORS", "Arguments", "Example", "Operator"]
