"""The defects that were found in the nearest other library of this kind: none may exist here."""
