"""Devices: what may be declared, and that a pool gives no unit twice and gets all back."""

from collections.abc import Mapping
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqljobs.schema.admission import Account, Kind, Room
from sqljobs.schema.amounts import all_micros
from sqljobs.schema.errors import InvalidJob
from sqljobs.supervisor.admitting import Admitting, Devices
from sqljobs.supervisor.devices import DevicePool, DeviceRules, parse_devices
from sqljobs.supervisor.settings import check_settings

GPUS = DeviceRules({"gpu": ("0", "1", "2"), "fpga": ("b", "a")}, {"gpu": "CUDA_VISIBLE_DEVICES"})


@pytest.mark.parametrize(
    "device",
    [
        *("gpu=0,1", ["gpu=0,1"], ("gpu=0,1",)),
        *({"gpu": ["0", "1"]}, {"gpu": ("0", "1")}, {"gpu": [0, 1]}, {"gpu": "0,1"}),
    ],
)
@pytest.mark.parametrize("env", ["gpu=GPUS", ["gpu=GPUS"], {"gpu": "GPUS"}])
def test_every_form(device: object, env: object) -> None:
    assert parse_devices(device, env) == DeviceRules({"gpu": ("0", "1")}, {"gpu": "GPUS"})


def test_several_and_odd_names() -> None:
    assert parse_devices(["gpu=MIG-1/2 a,é", "f.p-ga=x=y"]).units == {"gpu": ("MIG-1/2 a", "é"), "f.p-ga": ("x=y",)}
    assert parse_devices() == DeviceRules()
    assert parse_devices((), {}).published() is None
    assert GPUS.published() == {"gpu": {"units": ["0", "1", "2"]}, "fpga": {"units": ["b", "a"]}}


@pytest.mark.parametrize(
    ("device", "env", "words"),
    [
        ("gpu", (), "device: write NAME=UNIT,UNIT such as gpu=0,1, not 'gpu'"),
        ([7], (), "device: write NAME=UNIT,UNIT such as gpu=0,1, not 7"),
        (7, (), "device: write NAME=UNIT,UNIT such as gpu=0,1, not 7"),
        (None, (), "device: write NAME=UNIT,UNIT such as gpu=0,1, not None"),
        ("=0", (), "device: name '' is empty"),
        ("gpu=", (), "device 'gpu': unit '' is empty"),
        ("gpu=0,,1", (), "device 'gpu': unit '' is empty"),
        ("gpu=0, 1", (), "device 'gpu': unit ' 1' has a space"),
        ("gpu=0,1,0", (), "device 'gpu': unit '0' is given twice"),
        (["gpu=0", "gpu=1"], (), "device: 'gpu' is given twice"),
        ({"gpu": []}, (), "device 'gpu' has no units"),
        ({"gpu": None}, (), "device 'gpu': units must be a list"),
        ({"gpu": ["0,1"]}, (), "device 'gpu': unit '0,1' has a comma"),
        ({"gpu": [0, "0"]}, (), "device 'gpu': unit '0' is given twice"),
        *(({"gpu": [unit]}, (), "device 'gpu': unit must be text") for unit in (True, None, -1, 1.0, 10**9)),
        ({"g\npu": ["0"]}, (), "device: name 'g\\npu' has a control character"),
        ({7: ["0"]}, (), "device: name must be text"),
        ("gpu=0", "gpu", "device_env: write NAME=VARIABLE such as gpu=CUDA_VISIBLE_DEVICES, not 'gpu'"),
        ("gpu=0", "gpo=GPUS", "device_env: there is no device 'gpo' (did you mean 'gpu'?): declare it with --device"),
        ((), {"gpu": "GPUS"}, "device_env: there is no device 'gpu': declare it with --device gpu=UNIT,UNIT"),
        ("gpu=0", ["gpu=A", "gpu=B"], "device_env: 'gpu' is given twice"),
        (["gpu=0", "tpu=0"], ["gpu=A", "tpu=A"], "device_env: A cannot be the variable of both 'gpu' and 'tpu'"),
        *(
            ("gpu=0", {"gpu": name}, "device_env 'gpu': ")
            for name in ("", "A B", "1A", "A=B", "A-B", "É", "A\n", 7, None, "SQLJOBS_JOB")
        ),
    ],
)
def test_refused_in_one_line(device: object, env: object, words: str) -> None:
    with pytest.raises(InvalidJob) as caught:
        parse_devices(device, env)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_settings_hold_them() -> None:
    found = check_settings(backend="sqlite", device="gpu=0,1", device_env="gpu=GPUS")
    assert found.devices == DeviceRules({"gpu": ("0", "1")}, {"gpu": "GPUS"})
    assert check_settings(backend="sqlite").devices == DeviceRules()


def test_the_environment_names_what_a_job_has_and_nothing_else() -> None:
    assert GPUS.environment({"gpu": ("2", "0"), "fpga": ("a",)}) == {"CUDA_VISIBLE_DEVICES": "2,0"}
    assert GPUS.environment({"fpga": ["a"]}) == {}
    assert GPUS.environment({}) == {}


@pytest.mark.parametrize(
    ("uses", "needs"),
    [
        ({}, {}),
        ({"api": Decimal("0.5")}, {}),
        ({"gpu": Decimal(2), "api": Decimal("0.5")}, {"gpu": 2}),
        ({"gpu": Decimal("0.5")}, None),
        ({"gpu": Decimal("1.000001"), "fpga": Decimal(1)}, None),
        ({"gpu": Decimal(10**12)}, None),
    ],
)
def test_needs_are_whole_units_of_what_is_here(uses: Mapping[str, Decimal], needs: object) -> None:
    """None: what can never be had."""
    numbers = {name: len(units) for name, units in GPUS.units.items()}
    rooms = {("api", "g"): Room(Account("api", ""), Kind.RESOURCE, 10**6)}
    admitting, asked = Admitting(rooms, Devices(numbers, dict(numbers))), all_micros(uses)
    refused = admitting.why_not("g", asked)
    assert (None if refused is not None else admitting.units(asked)) == needs
    assert refused is None or refused.code == "impossible"


def test_the_first_free_in_the_order_declared() -> None:
    pool = DevicePool(GPUS)
    assert pool.take(1, {"gpu": 1, "fpga": 1}) == {"gpu": ("0",), "fpga": ("b",)}
    assert pool.take(2, {"gpu": 2}) == {"gpu": ("1", "2")}
    assert (pool.free("gpu"), pool.free("fpga"), pool.free("tpu")) == (0, 1, 0)
    pool.give_back(1)
    assert pool.take(3, {"gpu": 1}) == {"gpu": ("0",)}


def test_all_or_nothing() -> None:
    pool = DevicePool(GPUS)
    assert pool.take(1, {"gpu": 1, "fpga": 3}) is None
    assert pool.take(1, {"gpu": 1, "tpu": 1}) is None
    assert pool.free("gpu") == 3
    assert pool.take(1, {}) == {}
    assert pool.take(1, {"gpu": 1}) == {"gpu": ("0",)}
    assert pool.take(1, {"gpu": 1}) is None, "the job has the units of an earlier attempt yet"


@settings(deadline=None)
@given(
    rules=st.dictionaries(
        st.sampled_from(["gpu", "fpga"]), st.lists(st.sampled_from("abcdef"), min_size=1, unique=True).map(tuple)
    ),
    story=st.lists(
        st.tuples(
            st.integers(1, 5),
            st.none() | st.dictionaries(st.sampled_from(["gpu", "fpga", "tpu"]), st.integers(0, 4), max_size=3),
        ),
        max_size=40,
    ),
)
def test_no_unit_twice_and_all_come_back(
    rules: dict[str, tuple[str, ...]], story: list[tuple[int, dict[str, int] | None]]
) -> None:
    pool = DevicePool(DeviceRules(rules))
    held: dict[int, dict[str, tuple[str, ...]]] = {}

    def taken(name: str) -> list[str]:
        return [unit for units in held.values() for unit in units.get(name, ())]

    for job_id, wanted in story:
        if wanted is None:
            pool.give_back(job_id)
            held.pop(job_id, None)
        else:
            enough = all(0 < number <= pool.free(name) for name, number in wanted.items())
            given_units = pool.take(job_id, wanted)
            assert (given_units is not None) == (enough and job_id not in held)
            if given_units:
                assert {name: len(units) for name, units in given_units.items()} == wanted
                for name, units in given_units.items():
                    assert units == tuple(unit for unit in rules[name] if unit not in taken(name))[: len(units)]
                held[job_id] = given_units
        for name, units in rules.items():
            assert len(taken(name)) == len(set(taken(name)))
            assert pool.free(name) + len(taken(name)) == len(units)
    for job_id in list(held):
        pool.give_back(job_id)
    for name, units in rules.items():
        assert pool.take(99, {name: len(units)}) == {name: units}
        pool.give_back(99)
