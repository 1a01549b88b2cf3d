"""Where the database and the settings come from: flags, environment, file, default."""

from pathlib import Path

import pytest

from sqljobs.schema.errors import InvalidJob
from sqljobs.supervisor.config import Config, effective_config


def config(url: str | None = None, schema: str | None = None, file: str | None = None, **environ: str) -> Config:
    return effective_config(url=url, schema=schema, config_file=file, environ=environ)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("here")
def test_default() -> None:
    assert config() == Config("sqlite:///sqljobs.db", None, {})


def test_each_source_gives_way_to_the_one_before(here: Path) -> None:
    (here / "sqljobs.toml").write_text('url = "sqlite:///file.db"\nschema = "file"\n')
    (here / "secret").write_text("sqlite:///url_file.db\n")
    assert config().url == "sqlite:///file.db"
    assert config().schema == "file"
    assert config(SQLJOBS_URL_FILE="secret").url == "sqlite:///url_file.db"
    both = {"SQLJOBS_URL": "sqlite:///env.db", "SQLJOBS_URL_FILE": "secret", "SQLJOBS_SCHEMA": "env"}
    assert config(**both).url == "sqlite:///env.db"
    assert config(**both).schema == "env"
    assert config("sqlite:///flag.db", "flag", **both).url == "sqlite:///flag.db"
    assert config("sqlite:///flag.db", "flag", **both).schema == "flag"


@pytest.mark.usefixtures("here")
def test_an_empty_variable_is_none() -> None:
    assert config(SQLJOBS_URL="", SQLJOBS_URL_FILE="", SQLJOBS_SCHEMA="") == Config("sqlite:///sqljobs.db", None, {})


def test_config_names_another_file(here: Path) -> None:
    (here / "sqljobs.toml").write_text('url = "sqlite:///here.db"\n')
    (here / "other.toml").write_text('url = "sqlite:///other.db"\n')
    assert config(file="other.toml").url == "sqlite:///other.db"


def test_run_settings(here: Path) -> None:
    (here / "sqljobs.toml").write_text(
        '[run]\nhandlers = "app.py"\nonly_type = ["a", "b"]\nslots = 3\n'
        'heartbeat = 0.5\nttl = "5s"\nuntil_idle = true\n'
    )
    assert config().run == {
        "handlers": ("app.py",),
        "only_type": ("a", "b"),
        "slots": 3,
        "heartbeat": 0.5,
        "ttl": "5s",
        "until_idle": True,
    }


def test_devices_of_the_file_and_over_them_those_of_run(here: Path) -> None:
    (here / "sqljobs.toml").write_text(
        '[run]\ndevice = ["fpga=a,b"]\ndevice_env = "tpu=TPUS"\n'
        '[devices.gpu]\nunits = [0, "1"]\nenv = "CUDA_VISIBLE_DEVICES"\n'
        '[devices.fpga]\nunits = ["c"]\nenv = "FPGA"\n[devices.tpu]\nunits = ["x"]\nenv = "OTHER"\n'
    )
    assert config().run == {
        "device": {"gpu": ("0", "1"), "fpga": ("a", "b"), "tpu": ("x",)},
        "device_env": {"gpu": "CUDA_VISIBLE_DEVICES", "fpga": "FPGA", "tpu": "TPUS"},
    }


def test_limits(here: Path) -> None:
    (here / "sqljobs.toml").write_text('[limits.gpu]\nresource = 2\n[limits.usd]\nbudget = 0.5\nper = "day"\n')
    assert config().limits == {"gpu": {"resource": 2}, "usd": {"budget": 0.5, "per": "day"}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ulr = 1", "unknown key 'ulr' (did you mean 'url'?)"),
        ("[run]\nslot = 1", "unknown key 'slot' in [run] (did you mean 'slots'?)"),
        ("[run]\nkill-grace = 1", "unknown key 'kill-grace' in [run] (did you mean 'kill_grace'?)"),
        ("url = 1", "url must be text"),
        ("run = 1", "run must be a table"),
        ("[run]\nuntil_idle = 1", "until_idle in [run] must be true or false"),
        ("[run]\napp_dir = 1", "app_dir in [run] must be"),
        ("[run]\nhandlers = [1]", "handlers in [run] must be text or a list of texts"),
        ("[run]\nonly_group = 1", "only_group in [run] must be text or a list of texts"),
        ("[run]\npreload = 1", "preload in [run] must be true or false"),
        ("[run]\nno_preload = 'yes'", "no_preload in [run] must be true or false"),
        ("[run]\ndevice = 1", "device in [run] must be text or a list of texts"),
        ('[run]\ndevice = "gpu"', "device: write NAME=UNIT,UNIT such as gpu=0,1, not 'gpu'"),
        ("[devices]\ngpu = 1", "gpu in [devices] must be a table: write [devices.gpu] above its keys"),
        ("[devices.gpu]", "[devices.gpu] is empty: write units ="),
        ("[devices.gpu]\nunit = 1", "unknown key 'unit' in [devices.gpu] (did you mean 'units'?)"),
        ("[devices.gpu]\nunits = 1", "device 'gpu': units must be a list such as ['0', '1'], not 1"),
        ("[devices.gpu]\nunits = [0, 0]", "device 'gpu': unit '0' is given twice"),
        ("[devices.gpu]\nenv = 'A B'", "device_env 'gpu': 'A B' is no name of an environment variable"),
        ("[limits.api]\nrate = 1", "[limits.api]: limit 'api' is a rate, which needs per"),
        ("[limits.api]\nrte = 1", "[limits.api]: unknown key 'rte' (did you mean 'rate'?)"),
        ("[limits]\napi = 1", "[limits.api] must be a table"),
        ('[limits.api]\nbudget = "x"', "[limits.api]: budget must be a number from 0"),
        ('[limits." api"]\nbudget = 1', "limit ' api' has a space at its start"),
        ("url = ", "is not TOML: Invalid value"),
        ("a = " + "[" * 5000, "is not TOML"),
    ],
)
def test_the_file_is_checked(here: Path, text: str, words: str) -> None:
    (here / "sqljobs.toml").write_text(text)
    with pytest.raises(InvalidJob) as caught:
        config("sqlite:///given.db")
    assert "sqljobs.toml" in str(caught.value)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(here: Path) -> None:
    with pytest.raises(InvalidJob, match=r"--config: no\.toml cannot be read: No such file"):
        config(file="no.toml")
    with pytest.raises(InvalidJob, match="SQLJOBS_URL_FILE: no cannot be read: No such file"):
        config(SQLJOBS_URL_FILE="no")
    (here / "empty").write_text("\n")
    with pytest.raises(InvalidJob, match="SQLJOBS_URL_FILE: empty must hold the database URL on one line"):
        config(SQLJOBS_URL_FILE="empty")
    (here / "latin").write_bytes(b"\xe9")
    with pytest.raises(InvalidJob, match="latin cannot be read: it is not UTF-8"):
        config(SQLJOBS_URL_FILE="latin")
    (here / "sqljobs.toml").mkdir()
    with pytest.raises(InvalidJob, match=r"sqljobs\.toml cannot be read: Is a directory"):
        config()


def test_the_url_is_not_in_its_repr() -> None:
    assert "hush" not in repr(Config("postgresql://u:hush@h/d"))
