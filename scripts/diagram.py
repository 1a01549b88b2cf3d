"""Write the state machine of schema/states.py into ARCHITECTURE.md."""

import re
from pathlib import Path

from sqljobs.schema.states import diagram

page = Path(__file__).parents[1] / "ARCHITECTURE.md"
text = page.read_text()
page.write_text(re.sub(r"```mermaid\nstateDiagram-v2\n.*?```", f"```mermaid\n{diagram()}```", text, flags=re.DOTALL))
