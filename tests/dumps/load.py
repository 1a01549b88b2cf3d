"""Load a dump into an empty database."""

from pathlib import Path

from sqlalchemy import Engine

FOLDER = Path(__file__).parent
# Ends a statement: no text in the dumps has a line that ends so.
END = ";\n"


def load(engine: Engine, version: str, kind: str) -> None:
    """Run the statements of `version` for this kind of database."""
    text = (FOLDER / version / f"{kind}.sql").read_text()
    with engine.connect() as conn:
        conn = conn.execution_options(isolation_level="AUTOCOMMIT")
        for statement in text.split(END):
            body = "\n".join(line for line in statement.splitlines() if not line.startswith("--")).strip()
            if body and body not in ("BEGIN", "COMMIT"):
                conn.exec_driver_sql(body.replace("%", "%%") if kind != "sqlite" else body)
