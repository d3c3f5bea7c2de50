"""The only package that reads the index. It reads the rows of the entries before it returns them."""
