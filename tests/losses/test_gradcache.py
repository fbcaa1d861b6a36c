import pytest
import torch
from sentence_transformers.sentence_transformer import losses as st_losses

from kosbert.errors import UsageError
from kosbert.losses import build
from kosbert.losses.features import count, join, take
from kosbert.losses.gradcache import GradCacheLoss
from kosbert.losses.multiple_negatives_ranking import MultipleNegativesRankingLoss
from kosbert.losses.simcse import SupervisedSimCSELoss

# "비가 온다" is an anchor, a positive and a negative, so that false negatives occur.
TEXTS = (
    ["비가 온다", "고양이가 잔다", "오늘 날씨가 맑다", "사람이 책을 읽는다", "비가 온다"],
    ["오늘 비가 온다", "강아지가 잔다", "날씨가 맑다", "책을 읽는다", "비가 온다 온다"],
    ["눈이 온다", "고양이가 뛴다", "비가 온다", "노래를 부른다", "내일 날씨가 흐리다"],
)
CASES = [
    ("multiple-negatives-ranking", 3, {}),
    ("multiple-negatives-ranking", 2, {"symmetric": True}),
    ("simcse-supervised", 3, {}),
    ("multiple-negatives-ranking", 3, {"matryoshka": [8, 4]}),
    ("simcse", 1, {}),
]


def assert_close(actual, expected):
    assert actual.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(
            actual[name], gradient, atol=1e-5, rtol=1e-4, msg=lambda text, name=name: f"{name} {text}"
        )


def by_parameter(actual):
    """Return gradients by parameter name, without the prefix of the wrapper."""
    return {name.replace("loss.", ""): gradient for name, gradient in actual.items()}


@pytest.mark.parametrize("layout", ["flat", "padded"])
@pytest.mark.parametrize("mini_batch", [1, 4, 100])
@pytest.mark.parametrize(("name", "columns", "options"), CASES)
def test_gradients_equal_the_uncached_loss_without_dropout(
    gradients, tiny, tokens, layout, mini_batch, name, columns, options
):
    tiny.eval()
    features = [tokens(texts, layout) for texts in TEXTS[:columns]]
    plain = build(name, tiny, **options)
    loss, expected = gradients(plain, features)
    cached_loss, actual = gradients(GradCacheLoss(plain, mini_batch), features)
    torch.testing.assert_close(cached_loss, loss, atol=1e-5, rtol=1e-5)
    assert_close(by_parameter(actual), by_parameter(expected))


@pytest.mark.parametrize("layout", ["flat", "padded"])
@pytest.mark.parametrize(("name", "columns", "options"), CASES)
def test_gradients_equal_the_uncached_loss_with_the_same_dropout(
    gradients, tiny, tokens, layout, name, columns, options
):
    tiny.train()
    plain = build(name, tiny, **options)
    features = [tokens(texts, layout) for texts in TEXTS[:columns]]

    def mini_batches_with_one_graph(columns):
        # The same mini-batches in the same order use the same random numbers, but keep the graph in memory.
        batches = [join(columns)] if join(columns) is not None else columns
        vectors = []
        for batch in batches:
            numbers = list(range(count(batch)))
            for begin in range(0, len(numbers), 4):
                vectors.append(tiny(take(batch, numbers[begin : begin + 4]))["sentence_embedding"])
        return list(torch.cat(vectors).split([count(column) for column in columns]))

    cached = GradCacheLoss(plain, 4)
    plain.embed = mini_batches_with_one_graph
    torch.manual_seed(7)
    loss, expected = gradients(plain, features)
    torch.manual_seed(7)
    cached_loss, actual = gradients(cached, features)
    torch.testing.assert_close(cached_loss, loss, atol=1e-5, rtol=1e-5)
    assert_close(by_parameter(actual), by_parameter(expected))
    torch.manual_seed(8)
    other_loss, _ = gradients(cached, features)
    assert not torch.isclose(other_loss, loss)  # dropout was active


def test_the_backward_pass_leaves_the_random_state_unchanged(gradients, tiny, tokens):
    """The replay restores the generator, so a run with GradCache can be resumed."""
    features = [tokens(texts, "flat") for texts in TEXTS[:2]]
    loss_fn = GradCacheLoss(MultipleNegativesRankingLoss(tiny), 3)
    torch.manual_seed(3)
    loss = loss_fn(features)
    after_forward = torch.get_rng_state()
    loss.backward()
    assert torch.equal(torch.get_rng_state(), after_forward)


def test_equal_to_sentence_transformers_cached_loss(gradients, tiny, tokens):
    tiny.eval()
    features = [tokens(texts[:3], "flat") for texts in (TEXTS[0], TEXTS[1])]
    expected_loss, expected = gradients(
        st_losses.CachedMultipleNegativesRankingLoss(tiny, scale=20.0, mini_batch_size=2),
        [dict(column) for column in features],
    )
    loss, actual = gradients(GradCacheLoss(MultipleNegativesRankingLoss(tiny), 2), features)
    torch.testing.assert_close(loss, expected_loss, atol=1e-5, rtol=1e-5)
    assert_close(by_parameter(actual), by_parameter(expected))


def test_gradient_accumulation_scales_model_and_head_equally(gradients, tiny, tokens):
    tiny.eval()
    features = [tokens(texts, "flat") for texts in TEXTS]
    loss_fn = GradCacheLoss(SupervisedSimCSELoss(tiny), 4)
    _, whole = gradients(loss_fn, features)
    _, quarter = gradients(loss_fn, features, scale=0.25)
    assert whole["loss.head.0.weight"].abs().sum() > 0
    assert_close({name: g if g is None else 4 * g for name, g in quarter.items()}, whole)


@pytest.mark.parametrize("layout", ["flat", "padded"])
def test_the_model_never_sees_more_than_a_mini_batch(table, layouts, layout):
    model = table(torch.eye(12).tolist())
    make = getattr(layouts, layout)
    columns = [make([[number + start] for number in range(6)]) for start in (0, 6)]
    loss = GradCacheLoss(MultipleNegativesRankingLoss(model), 5)(columns)
    assert model.calls == [5, 5, 2]
    loss.backward()
    assert model.calls == [5, 5, 2] * 2


def test_two_forwards_before_two_backwards_add_their_gradients(gradients, table, column):
    loss_fn = GradCacheLoss(MultipleNegativesRankingLoss(table([[1.0, 0.3], [0.2, 1.0], [0.9, 0.1], [0.3, 0.8]])), 1)
    pairs = [column(0, 1), column(2, 3)], [column(1, 2), column(0, 3)]
    expected = sum(gradients(loss_fn, columns)[1]["model.rows"] for columns in pairs)
    loss_fn.zero_grad()
    first, second = loss_fn(pairs[0]), loss_fn(pairs[1])
    first.backward()
    second.backward()
    torch.testing.assert_close(loss_fn.model.rows.grad, expected)


def test_loss_without_gradients_equals_the_uncached_loss(tiny, tokens):
    tiny.eval()
    features = [tokens(texts, "flat") for texts in TEXTS]
    with torch.no_grad():
        loss = GradCacheLoss(MultipleNegativesRankingLoss(tiny), 2)(features)
        assert not loss.requires_grad
        torch.testing.assert_close(loss, MultipleNegativesRankingLoss(tiny)(features), atol=1e-5, rtol=1e-5)


def test_autocast_is_the_same_in_the_replay(tiny, tokens):
    tiny.eval()
    seen = []
    tiny[0].register_forward_hook(lambda *_: seen.append(torch.is_autocast_enabled("cpu")))
    features = [tokens(texts, "flat") for texts in TEXTS[:2]]
    with torch.autocast("cpu", torch.bfloat16):
        loss = GradCacheLoss(MultipleNegativesRankingLoss(tiny), 5)(features)
    loss.backward()
    assert seen == [True] * 4


def test_wrong_mini_batch_and_bags_of_tokens_are_usage_errors(table):
    with pytest.raises(UsageError, match="at least 1 sentence"):
        GradCacheLoss(MultipleNegativesRankingLoss(table([[1.0]])), 0)
    bag = {"input_ids": torch.tensor([0, 1]), "offsets": torch.tensor([0, 1])}
    with pytest.raises(UsageError, match="drop gradcache"):
        GradCacheLoss(MultipleNegativesRankingLoss(table([[1.0]])), 1)([bag, bag])
