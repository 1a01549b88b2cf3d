"""Jobs that end in every way that is quick."""

import os
import signal
import subprocess

import sqljobs


@sqljobs.on_child_start
def hook() -> None:
    if sqljobs.current_job().args == {"how": 1}:
        raise ValueError("of a hook")


@sqljobs.handler(max_attempts=1)
def ends(how: int) -> object:
    print(f"this is how: {how}")
    match how % 10:
        case 2:
            raise ValueError("no")
        case 3:
            os._exit(3)
        case 4:
            os.kill(os.getpid(), signal.SIGKILL)
        case 5:
            sqljobs.current_job().checkpoint({"how": how})
        case 6:
            os.write(1, b"native\n" * 1000)
        case 7:
            subprocess.Popen(["sleep", "600"], start_new_session=True)
        case 8:
            return object()
    return None
