"""Run every benchmark with its defaults."""

from benchmarks import attention, day, plan, simulate_speed, startup


def main() -> None:
    for title, benchmark in (
        ("Start-up of the command, warm compile cache", startup),
        ("Simulated requests per CPU-second, all metrics on", simulate_speed),
        ("A certified plan", plan),
        ("Attention of decodes, one thread", attention),
        ("A day of a fleet", day),
    ):
        print(f"\n{title}\n")
        benchmark.main([])


if __name__ == "__main__":
    main()
