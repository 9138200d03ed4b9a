"Run the command line: `transformer-nbdev`, or `python -m transformer_nbdev`."
import os


def main() -> None:
    "Run the command line, with defaults for two environment variables that PyTorch's libraries read at startup."
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")  # waiting threads go to sleep soon: see speed/bench
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16384")  # keep compiled kernels: see tools/devices
    from .cli import main as run
    from .tools.devices import keep_memory

    keep_memory()
    run()


if __name__ == "__main__":
    main()
