"""No URL of any kind of process is a 500, in the short form of the proof."""

from pathlib import Path

from tests.proofs.test_nothing_is_lost import results_of, start


def test_no_url_of_any_kind_of_process_is_a_500(tmp_path: Path) -> None:
    run = results_of(
        start("attack", "--every", "60", file=tmp_path / "attack"), tmp_path / "attack"
    )
    assert run["requests"] > 3 * 2_000
    assert (run["responses 500"], run["faults"], run["tracebacks"]) == (0, "none", 0)
    assert run["a flood fills the log"] == run["more lines than requests"] == "False"
