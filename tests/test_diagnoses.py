"A checker names a mistake only if it is certain: wrong answers that follow no rule get no explanation."
import numpy as np
import pytest

from transformer_nbdev.tools.diagnoses import formula, relation
from transformer_nbdev.tools.exercises import Exercise

sizes = [(64, 256, 1000), (512, 1024, 37_000), (256, 2048, 8000), (1024, 3000, 32_000), (128, 512, 500)]


def random_exercise(rng: np.random.Generator, kind: int) -> tuple[list, list]:
    "Right results and wrong ones without a rule, as large or as small as those of exercises are."
    scale = 10.0 ** rng.integers(-9, 9)
    if kind == 0:  # numbers
        return list(scale * rng.random(6)), list(scale * 10.0 ** rng.integers(-9, 9) * rng.random(6))
    if kind == 1:  # one case of ten is wrong
        return [scale * rng.random()], [scale * rng.random()]
    if kind == 2:  # counts
        return list(rng.integers(1, 9, 4)), list(rng.integers(10, 90, 4))
    shape = (3,) if kind == 3 else (3, 4)
    right, wrong = (np.exp(rng.standard_normal((5, *shape))) for _ in range(2))
    if kind == 5:  # probabilities on both sides
        right, wrong = right / right.sum(-1, keepdims=True), wrong / wrong.sum(-1, keepdims=True)
    return list(scale * right if kind < 5 else right), list(scale * wrong if kind < 5 else wrong)


@pytest.mark.parametrize("kind", range(6))
def test_200_wrong_answers_without_a_rule_get_no_explanation(kind):
    rng = np.random.default_rng(kind)
    for _ in range(200):
        right, wrong = random_exercise(rng, kind)
        assert relation(wrong, right) is None
        if kind == 0:
            assert formula(wrong[:5], right[:5], ["d", "f", "v"], sizes) is None


@pytest.mark.parametrize("wrong", [
    lambda d, f, v: 3417, lambda d, f, v: d + f, lambda d, f, v: (12 * d**2 + 4 * d * f) / (12 * d),
    lambda d, f, v: 3 * d**2 + v * f, lambda d, f, v: 0.3,
])
def test_a_formula_is_not_invented(wrong):
    right = [12 * d**2 + 2 * d * f for d, f, v in sizes]
    answer = [wrong(*size) for size in sizes]
    assert relation(answer, right) is None and formula(answer, right, ["d", "f", "v"], sizes) is None


def test_a_constant_is_named_only_if_somebody_would_write_it():
    right = list(np.random.default_rng(0).random((4, 3)))
    assert relation([3 * e for e in right], right) == "it is 3 times the right result"
    assert relation([e / 8 for e in right], right) == "it is 0.125 times the right result"
    assert relation([0.0371 * e for e in right], right) == "it is right up to a constant factor"
    assert relation([e + 1 for e in right], right) == "it is the right result plus 1"
    assert relation([e - 0.0371 for e in right], right) == "it is right up to a constant that is added"
    assert relation([1e-9 * e + 1 for e in right], right) is None  # nearly constant is not a relation to the result


def test_one_wrong_number_is_no_rule():
    exercise = Exercise("flag", lambda n: n % 7, lambda rng: (int(rng.integers(0, 90)),))
    case = exercise._cases()[0][0]
    said = exercise.diagnose(lambda n: n % 7 if n != case else 2 * (n % 7) + 2)
    assert said.startswith(f"for the arguments {case} the result is")
