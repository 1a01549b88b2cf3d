"""Column types that mean the same on all four databases: names compared by bytes, UTC times, JSON text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import BigInteger, DateTime, Integer, Numeric, String, Text
from sqlalchemy.dialects import mysql
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator, TypeEngine

from sqljobs.schema.amounts import decimal_of, micros_of, text_of

NAME_LENGTH = 200
OWNER_LENGTH = 240

# AUTOINCREMENT on SQLite needs the plain INTEGER type; elsewhere ids are 64 bits.
Id = BigInteger().with_variant(Integer(), "sqlite")


def _is_mysql(dialect: Dialect) -> bool:
    return dialect.name in ("mysql", "mariadb")


def binary_collation(dialect: Dialect) -> str:
    """The collation that compares by bytes; the default ones merge 'a', 'A' and 'a '."""
    return "utf8mb4_nopad_bin" if getattr(dialect, "is_mariadb", False) else "utf8mb4_0900_bin"


class Name(TypeDecorator[str]):
    """An identifying string, compared by bytes on every database."""

    impl = String
    cache_ok = True

    def __init__(self, length: int = NAME_LENGTH) -> None:
        super().__init__(length)
        self.length = length

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if _is_mysql(dialect):
            collation = binary_collation(dialect)
            return dialect.type_descriptor(mysql.VARCHAR(self.length, charset="utf8mb4", collation=collation))
        if dialect.name == "postgresql":
            return dialect.type_descriptor(String(self.length, collation="C"))
        return dialect.type_descriptor(String(self.length))


class LongText(TypeDecorator[str]):
    """Text of up to 16 MiB."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if _is_mysql(dialect):
            collation = binary_collation(dialect)
            return dialect.type_descriptor(mysql.MEDIUMTEXT(charset="utf8mb4", collation=collation))
        return dialect.type_descriptor(Text())


class JsonText(str):
    """JSON text that `payloads.to_json` has made and checked; `Json` columns store it as it is."""

    __slots__ = ()


class Json(TypeDecorator[Any]):
    """JSON text written by us: integers and key order survive, None is SQL NULL. Python reads the decoded value."""

    impl = LongText
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        if value is None or isinstance(value, JsonText):
            return value
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else json.loads(value)


class Amounts(TypeDecorator[Mapping[str, Decimal]]):
    """Exact amounts by name, as a JSON object of numbers; an empty one is SQL NULL."""

    impl = LongText
    cache_ok = True

    def process_bind_param(self, value: Mapping[str, Decimal] | None, dialect: Dialect) -> str | None:
        return _numbers(value) if value else None

    def process_result_value(self, value: Any, dialect: Dialect) -> Mapping[str, Decimal] | None:
        return None if value is None else json.loads(value, parse_float=Decimal, parse_int=Decimal)


class AmountsByType(TypeDecorator[Mapping[str, Mapping[str, Decimal]]]):
    """Exact amounts by name, for each of several types; none at all is SQL NULL."""

    impl = LongText
    cache_ok = True

    def process_bind_param(self, value: Mapping[str, Mapping[str, Decimal]] | None, dialect: Dialect) -> str | None:
        return _object({name: _numbers(amounts) for name, amounts in value.items()}) if value else None

    def process_result_value(self, value: Any, dialect: Dialect) -> Mapping[str, Mapping[str, Decimal]] | None:
        return None if value is None else json.loads(value, parse_float=Decimal, parse_int=Decimal)


def _numbers(amounts: Mapping[str, Decimal]) -> str:
    return _object({name: text_of(micros_of(amount)) for name, amount in amounts.items()})


def _object(members: Mapping[str, str]) -> str:
    """A JSON object of members that are JSON texts: json.dumps knows no exact decimals."""
    return "{" + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{text}" for name, text in members.items()) + "}"


class Micros(TypeDecorator[int]):
    """An exact amount with six decimal places. Python sees whole millionths; SQLite, which has no decimals, too."""

    impl = Numeric
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "sqlite":
            return dialect.type_descriptor(BigInteger())
        return dialect.type_descriptor(Numeric(24, 6))

    def process_bind_param(self, value: int | None, dialect: Dialect) -> Any:
        return value if value is None or dialect.name == "sqlite" else decimal_of(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> int | None:
        return value if value is None or dialect.name == "sqlite" else micros_of(value)


class UtcTime(TypeDecorator[datetime]):
    """An instant with microseconds. Python sees aware UTC datetimes; naive ones are refused."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if _is_mysql(dialect):
            return dialect.type_descriptor(mysql.DATETIME(fsp=6))
        return dialect.type_descriptor(DateTime(timezone=dialect.name == "postgresql"))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a time without a UTC offset cannot be stored")
        utc = value.astimezone(UTC)
        return utc if dialect.name == "postgresql" else utc.replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
