"The command `transformer-nbdev`, also as `python -m transformer_nbdev`."
import os


def main() -> None:
    "Run the command line, with two settings that PyTorch's libraries read when they start, unless they are set already."
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")  # threads that wait for each other sleep soon: speed/bench
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16384")  # kernels are kept: tools/devices
    from .cli import main as run
    from .tools.devices import keep_memory

    keep_memory()
    run()


if __name__ == "__main__":
    main()
