"""The command torchkata, and python -m torchkata. A process that only runs the command's script once more, as those of
multiprocessing do, loads next to nothing."""


def main() -> None:
    from torchkata.cli import main

    main()


if __name__ == "__main__":
    main()
