"""MySQL 8.0.19+ and MariaDB 10.6+: READ COMMITTED, exclusive locks by primary key only, UTC_TIMESTAMP as clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, Table, bindparam, delete, func, insert, select, text, update
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import DBAPIError, IntegrityError

from sqljobs.schema.dialects.contract import FirstRows, PrefixReading, Trouble
from sqljobs.schema.errors import DatabaseUnavailable

if TYPE_CHECKING:
    from sqljobs.schema.dialects.contract import Rows

OLDEST_MYSQL = (8, 0, 19)
OLDEST_MARIADB = (10, 6)
STATEMENT_SECONDS = 30
IDLE_SECONDS = 15
SESSION_SECONDS = 60
DUPLICATE_ENTRY = 1062
MISSING_TABLE = frozenset({1146, 1049})  # table, or the database that configure(schema=) named

# Lock wait timeout, deadlock, record changed, NOWAIT, statement killed or over the server's time limit for statements.
_RETRY = frozenset({1205, 1213, 1020, 3572, 1317, 1969, 3024})
# Lost, refused for lack of connections or of rights to write, or a server short of disk, memory or threads: may pass.
_DISCONNECTED = frozenset(
    {
        *(1040, 1053, 1129, 1135, 1152, 1158, 1159, 1160, 1161, 1203, 1226, 1290, 1836),
        *(2002, 2003, 2006, 2013, 2055, 4031),
        *(1021, 1030, 1037, 1041, 1114),
    }
)


def _prefixes(first_rows: FirstRows, collation: str) -> PrefixReading:
    names = "".join(
        f"{name} VARCHAR(255) CHARACTER SET utf8mb4 COLLATE {collation} PATH '$[{place}]', "
        for place, name in enumerate("gtu")
    )
    columns = f"COLUMNS ({names}p INT PATH '$[3]')"
    given = text(f"SELECT g, t, u, p FROM JSON_TABLE(:lanes, '$[*]' {columns}) AS lanes")
    return PrefixReading(distinct=True, first_rows=first_rows, given=given)


_MYSQL_PREFIXES = _prefixes(FirstRows.LATERAL, "utf8mb4_0900_bin")
_MARIADB_PREFIXES = _prefixes(FirstRows.PLACES, "utf8mb4_nopad_bin")


class MySQL:
    name = "mysql"

    def check_server(self, conn: Connection) -> None:
        version = conn.dialect.server_version_info or (0,)
        maria = bool(getattr(conn.dialect, "is_mariadb", False))
        product, oldest = ("MariaDB", OLDEST_MARIADB) if maria else ("MySQL", OLDEST_MYSQL)
        numbers = tuple(part for part in version if isinstance(part, int))
        if numbers < oldest:
            needed = ".".join(map(str, oldest))
            shown = ".".join(map(str, numbers))
            raise DatabaseUnavailable(f"{product} {shown} is too old: sqljobs needs {needed} or newer")
        row = conn.execute(text("SELECT @@default_storage_engine, @@global.log_bin, @@global.binlog_format")).one()
        if int(row[1]) and str(row[2]).upper() == "STATEMENT":
            raise DatabaseUnavailable(
                f"{product} writes its binary log as STATEMENT, which refuses READ COMMITTED: set binlog_format to ROW"
            )

    def begin(self, conn: Connection, *, patience: float) -> datetime:
        # For the session, since there is no other way, and each time, since that costs one trip however many there are.
        limits = {"innodb_lock_wait_timeout": max(1, round(patience)), **_limits(conn)}
        conn.execute(text("SET " + ", ".join(f"SESSION {name} = {value}" for name, value in limits.items())))
        return self.now(conn)

    def begin_read(self, conn: Connection) -> datetime:
        return self.now(conn)

    def begin_snapshot(self, conn: Connection) -> datetime:
        conn.rollback()
        conn.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")  # the next one's alone
        conn.exec_driver_sql("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        return self.now(conn)

    def restore(self, conn: Connection) -> None:
        names = ("innodb_lock_wait_timeout", *_limits(conn))
        conn.execute(text("SET " + ", ".join(f"SESSION {name} = DEFAULT" for name in names)))

    def commit(self, conn: Connection) -> None:
        conn.commit()

    def rollback(self, conn: Connection) -> None:
        conn.rollback()

    def now(self, conn: Connection) -> datetime:
        value: datetime = conn.execute(text("SELECT UTC_TIMESTAMP(6)")).scalar_one()
        return value.replace(tzinfo=UTC)

    def lock(self, select: Rows, *, skip_locked: bool = False) -> Rows:
        # Any other index would lock the entries that it walks over (200 for 5, measured), so it is forced.
        for table in select.get_final_froms():
            select = select.with_hint(table, "FORCE INDEX (PRIMARY)", "mysql")
            select = select.with_hint(table, "FORCE INDEX (PRIMARY)", "mariadb")
        return select.with_for_update(skip_locked=skip_locked)

    def latest(self, select: Rows, *, index: str = "jobs_key") -> Rows:
        # REPEATABLE READ, the default, shows an old snapshot to any other read. By the index of keys alone, where the
        # refused insert holds the same shared locks already: none on the rows themselves.
        for table in select.get_final_froms():
            for name in ("mysql", "mariadb"):
                select = select.with_hint(table, f"FORCE INDEX ({index})", name)
        return select.with_for_update(read=True)

    def prefix_reading(self, conn: Connection) -> PrefixReading:
        return _MARIADB_PREFIXES if getattr(conn.dialect, "is_mariadb", False) else _MYSQL_PREFIXES

    def insert_new(self, conn: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> dict[int, int]:
        # Without their keys at first: under REPEATABLE READ a refused INSERT leaves locks on the gaps of every index,
        # and no other caller could enqueue, nor a supervisor claim, while this caller's transaction is open (measured).
        ids = self._insert_all(conn, table, [{**row, "key_slot": None} for row in rows])
        keyed = [ids[row["batch_no"]] for row in rows if row["key_slot"] is not None]
        refused = self._refused_keys(conn, table, keyed) if keyed else set()
        if refused:
            one = delete(table).where(table.c.id == bindparam("refused"))
            conn.execute(one, [{"refused": job_id} for job_id in sorted(refused)])
        return {batch_no: job_id for batch_no, job_id in ids.items() if job_id not in refused}

    def _refused_keys(self, conn: Connection, table: Table, ids: Sequence[int]) -> set[int]:
        """Take the keys of these rows; returns those rows whose key is taken. The database undoes a refused UPDATE."""
        statement = update(table).where(table.c.id.in_(ids)).values(key_slot=table.c.key)
        for name in ("mysql", "mariadb"):
            statement = statement.with_hint("FORCE INDEX (PRIMARY)", dialect_name=name)
        try:
            conn.execute(statement)
        except IntegrityError as error:
            if not _is_duplicate(error):
                raise
            if len(ids) == 1:
                return set(ids)
            return {job_id for one in ids for job_id in self._refused_keys(conn, table, [one])}
        return set()

    def _insert_all(self, conn: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> dict[int, int]:
        # MySQL has no RETURNING: ids only grow, so ours are above every id seen before, and carry our token.
        token = rows[0]["batch"]
        before = conn.execute(select(func.coalesce(func.max(table.c.id), 0))).scalar_one()
        conn.execute(insert(table), list(rows))
        found = conn.execute(select(table.c.batch_no, table.c.id).where(table.c.id > before, table.c.batch == token))
        return {row.batch_no: row.id for row in found}

    def upsert(self, conn: Connection, table: Table, row: Mapping[str, Any], changes: Mapping[str, Any]) -> None:
        key = table.primary_key.columns[0]
        # A list, because MySQL makes the changes one after the other, and a later one sees what an earlier has done.
        assignments = list(changes.items()) or [(key.name, key)]
        conn.execute(mysql.insert(table).values(row).on_duplicate_key_update(assignments))

    def total(self, amounts: ColumnElement[int]) -> ColumnElement[int]:
        return func.sum(amounts)

    def serialise(self, conn: Connection, token: str) -> None:
        return  # a locking read of the row, though not committed yet, waits for its session

    def notify(self, conn: Connection, channel: str, payload: str) -> None:
        return  # this database has nothing to listen to: supervisors poll

    def missing_table(self, error: BaseException) -> bool:
        return isinstance(error, DBAPIError) and _code(error) in MISSING_TABLE

    def trouble(self, error: BaseException) -> Trouble:
        if not isinstance(error, DBAPIError):
            return Trouble.OTHER
        code = _code(error)
        if code in _RETRY:
            return Trouble.RETRY
        if error.connection_invalidated or code in _DISCONNECTED or type(error.orig).__name__ == "InterfaceError":
            return Trouble.DISCONNECTED
        return Trouble.OTHER


def _limits(conn: Connection) -> dict[str, int]:
    """What ends a session of a client that has vanished, or stopped, and so frees the rows that it has locked."""
    if getattr(conn.dialect, "is_mariadb", False):
        return {
            "wait_timeout": SESSION_SECONDS,
            "idle_transaction_timeout": IDLE_SECONDS,
            "max_statement_time": STATEMENT_SECONDS,
        }
    return {"wait_timeout": SESSION_SECONDS, "max_execution_time": STATEMENT_SECONDS * 1000}


def _code(error: DBAPIError) -> int:
    return error.orig.args[0] if error.orig is not None and error.orig.args else 0


def _is_duplicate(error: DBAPIError) -> bool:
    return _code(error) == DUPLICATE_ENTRY
