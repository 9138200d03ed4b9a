"""On Linux, the kernels of all notebooks under test fork from one process that has imported PyTorch and Matplotlib.

The imports take a kernel two to three seconds, and there are fifty notebooks. `conftest.py` imports this file;
without it, nbval starts each kernel as Jupyter does.
"""
import multiprocessing
import os
import sys
import time
from multiprocessing import forkserver

from jupyter_client.provisioning import local_provisioner

server = multiprocessing.get_context("forkserver")
server.set_forkserver_preload(["torch", "matplotlib.pyplot", "ipykernel.kernelapp", "ipywidgets"])
inline = {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}  # Matplotlib reads it when it is imported


def run_kernel(command: list[str], cwd: str, env: dict[str, str]) -> None:
    "Become the kernel that `command`, python -m ipykernel_launcher -f FILE, would start."
    os.setsid()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env | inline | {"JPY_PARENT_PID": str(os.getppid())})  # a kernel ends when its parent does
    sys.argv = command[2:]
    from ipykernel.kernelapp import launch_new_instance

    launch_new_instance()


class Kernel:
    "A kernel's process, with what jupyter_client uses of `subprocess.Popen`."
    stdin = stdout = stderr = None

    def __init__(self, command: list[str], cwd: str | None = None, env: dict[str, str] | None = None, **_):
        own = dict(os.environ)
        os.environ.update(inline)
        forkserver.ensure_running()
        os.environ.clear()
        os.environ.update(own)
        self.process = server.Process(target=run_kernel, args=(command, cwd or os.getcwd(), env or own))
        self.process.start()
        self.pid = self.process.pid
        while os.getpgid(self.pid) != self.pid:  # signals go to its process group, which must not be ours
            time.sleep(0.001)

    def poll(self) -> int | None:
        return self.process.exitcode

    def wait(self) -> int | None:
        self.process.join()
        return self.process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)


local_provisioner.launch_kernel = Kernel
