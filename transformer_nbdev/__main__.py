"`python -m transformer_nbdev` is the command `transformer-nbdev`."
from .cli import main

if __name__ == "__main__":
    main()
