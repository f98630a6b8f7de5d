from typing import Any
Results=Any
def write_page(a,b): pass
